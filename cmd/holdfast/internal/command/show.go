package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/describe"
)

// showCmd is `holdfast show`.
type showCmd struct {
	Resource text `arg:"" help:"Name of the resource."`
	JSON     bool `help:"One JSON object; ids, times in UTC, TTL in milliseconds."`

	watchFlag
}

// Help is the long text of --help.
func (*showCmd) Help() string {
	return `Shows the holders of the resource and its waiters, in queue order. A resource that is not in use is no error.
A quorum does not show waiters; with --json they are null. A waiter that has been silent for 3 s is dead: it is listed apart
until it is dropped, some seconds later, and does not count.

Examples:
	holdfast show stock:42
	holdfast show --watch 2s stock:42
	holdfast show stock:42 --json | jq '.holders[0].pid'`
}

// Run shows the resource.
func (c *showCmd) Run(e *env) error {
	return e.with(func(ctx context.Context, s *session) error {
		return c.watch(ctx, e, func() error { return c.look(ctx, e, s) })
	})
}

func (c *showCmd) look(ctx context.Context, e *env, s *session) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	snap, err := s.Snapshot(ctx, string(c.Resource))
	if err != nil {
		return err
	}
	if c.JSON {
		return writeJSON(e.stdout, describe.ToJSON(snap))
	}
	return c.print(e, snap)
}

func (c *showCmd) print(e *env, s holdfast.Snapshot) error {
	if err := printMark(e.stdout, s); err != nil {
		return err
	}
	if len(s.Holders) == 0 && s.NoWaiters {
		_, err := fmt.Fprintf(e.stdout, "%q is not held; a quorum does not show its waiters (prefix %q)\n", c.Resource, e.prefix)
		return err
	}
	if len(s.Holders) == 0 && len(s.Waiters) == 0 {
		fmt.Fprintf(e.stdout, "%q is free: it has no holder and no waiter (prefix %q)\n", c.Resource, e.prefix)
		return printDead(e.stdout, s)
	}
	fmt.Fprintf(e.stdout, "%s\n\n", heading(s))
	if err := printHolders(e.stdout, s); err != nil {
		return err
	}
	if s.NoWaiters {
		_, err := fmt.Fprintf(e.stdout, "\n%s\n", waitersUnknown)
		return err
	}
	if len(s.Waiters) > 0 {
		fmt.Fprintln(e.stdout)
		if err := printWaiters(e.stdout, s); err != nil {
			return err
		}
	}
	return printDead(e.stdout, s)
}

const waitersUnknown = "Waiters are not known: a quorum does not show them."

// heading describes a resource that is in use.
func heading(s holdfast.Snapshot) string {
	return fmt.Sprintf("%s  %s, capacity %d, highest fencing token %d", cell(s.Resource), cell(s.Kind), s.Capacity, s.Token)
}

// printMark prints a line about the mark of a resource, if it has one.
func printMark(w io.Writer, s holdfast.Snapshot) error {
	if s.Marked <= 0 {
		return nil
	}
	by := ""
	if s.MarkedBy.ID != "" {
		by = fmt.Sprintf(", by %s, begun %s", cell(doneBy(s.MarkedBy)), since(s.MarkedBy.Since))
	}
	_, err := fmt.Fprintf(w, "%q is marked as done, for another %s (until %s by this machine's clock)%s\n", s.Resource, short(s.Marked), since(time.Now().Add(s.Marked)), by)
	return err
}

// share is the name of the column of weights.
func share(s holdfast.Snapshot) string {
	if describe.Mode(s, s.Capacity) != "" {
		return "MODE"
	}
	return "WEIGHT"
}

// printHolders prints the table of holders: a header, and one line for each.
func printHolders(w io.Writer, s holdfast.Snapshot) error {
	t := table(w, "HOLDER ID\tHELD BY\tSINCE\tTTL LEFT\tTOKEN\t"+share(s)+"\tREASON")
	for _, h := range s.Holders {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", cell(h.ID), cell(where(h.Name, h.Host, h.PID)),
			since(h.Since), left(h), h.Token, cmp.Or(describe.Mode(s, h.Weight), strconv.Itoa(h.Weight)), cell(h.Reason))
	}
	return t.Flush()
}

// printWaiters prints the table of waiters, in queue order.
func printWaiters(w io.Writer, s holdfast.Snapshot) error {
	t := table(w, "WAITER ID\tWAITING\tSINCE\t"+share(s)+"\tREASON")
	for _, p := range s.Waiters {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", cell(p.ID), cell(where(p.Name, p.Host, p.PID)),
			since(p.Since), cmp.Or(describe.Mode(s, p.Weight), strconv.Itoa(p.Weight)), cell(p.Reason))
	}
	return t.Flush()
}

// printDead prints the table of dead waiters, if there are any.
func printDead(w io.Writer, s holdfast.Snapshot) error {
	if len(s.Dead) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := table(w, "DEAD WAITER ID\tWAITED\tSINCE\tSILENT FOR\tREASON")
	for _, p := range s.Dead {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", cell(p.ID), cell(where(p.Name, p.Host, p.PID)), since(p.Since), short(p.Silent), cell(p.Reason))
	}
	return t.Flush()
}

// left is how long a lease lasts, unless it is renewed.
func left(h holdfast.Holder) string {
	switch {
	case h.Breaking:
		return short(h.TTL) + ", broken"
	case h.Lingers:
		return short(h.TTL) + ", may linger"
	}
	return short(h.TTL)
}
