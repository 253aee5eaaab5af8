package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
)

// breakCmd is `holdfast break`.
type breakCmd struct {
	Resource text `arg:"" help:"Name of the resource."`
	HolderID text `arg:"" name:"holder-id" help:"ID of the holder or waiter, from holdfast show."`
	Force    bool `help:"End a lease at once, even though its holder may still act."`
	JSON     bool `help:"Answer as a JSON object."`
}

// Help is the long text of --help.
func (*breakCmd) Help() string {
	return `Breaks a lease or ends a wait. A broken lease cannot be renewed, and its holder is told: at once if a wake-up
reaches it, otherwise at its next renewal (a third of its TTL). The next waiter gets the resource when the
holder's process has released it, at the latest when the TTL is over, so there are never two holders.
With --force it gets the resource at once: until the holder is told both may act, and only fencing tokens keep
late writes out. A latch needs --force, since no process holds it. The lease of a dead holder needs no break: it
expires by itself. The ID identifies one lease, so a break that comes too late cannot affect the next holder.

Examples:
	holdfast show stock:42
	holdfast break stock:42 kJ4xq0mT.9fQ2
	holdfast break --force stock:42 kJ4xq0mT.9fQ2`
}

// Run breaks the lease or the wait.
func (c *breakCmd) Run(e *env) error {
	s, err := e.open()
	if err != nil {
		return err
	}
	defer s.close()
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	var opts []holdfast.BreakOption
	if c.Force {
		opts = append(opts, holdfast.Force())
	}
	err = s.Break(ctx, string(c.Resource), string(c.HolderID), opts...)
	if errors.Is(err, holdfast.ErrNotHeld) {
		return fail(exitNo, "%s neither holds %q nor waits for it (prefix %q); see \"holdfast show %s\" for who does",
			c.HolderID, c.Resource, e.prefix, shellWord(c.Resource))
	}
	if err != nil {
		return s.explain(err)
	}
	if c.JSON {
		return writeJSON(e.stdout, map[string]any{"resource": c.Resource, "broken": c.HolderID})
	}
	_, err = fmt.Fprintf(e.stdout, "broken: %s can no longer renew %q or wait for it\n", c.HolderID, c.Resource)
	return err
}
