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
	JSON     bool `help:"Answer as a JSON object."`
}

// Help is the long text of --help.
func (*breakCmd) Help() string {
	return `Ends a lease, or a place in the queue, by force; the next waiter gets the resource at once. The holder is
told at once if a wake-up reaches it, else at its next renewal (a third of its TTL). Until then it may still
act: only fencing tokens keep its late writes out. A holder that died needs no break: its lease ends by itself.
The ID names one lease, so that a break that comes too late cannot hit the next holder.

Examples:
	holdfast show stock:42
	holdfast break stock:42 kJ4xq0mT.9fQ2`
}

// Run breaks the lease or the wait.
func (c *breakCmd) Run(e *env) error {
	s, err := e.open()
	if err != nil {
		return err
	}
	defer s.close()
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	err = s.Break(ctx, string(c.Resource), string(c.HolderID))
	if errors.Is(err, holdfast.ErrNotHeld) {
		return fail(exitNo, "%s neither holds %q nor waits for it (prefix %q); see \"holdfast show %s\" for who does",
			c.HolderID, c.Resource, e.prefix, c.Resource)
	}
	if err != nil {
		return explain(err, s.at)
	}
	if c.JSON {
		return writeJSON(e.stdout, map[string]any{"resource": c.Resource, "broken": c.HolderID})
	}
	_, err = fmt.Fprintf(e.stdout, "broken: %s no longer holds or waits for %q\n", c.HolderID, c.Resource)
	return err
}
