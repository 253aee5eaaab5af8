package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
)

// lsCmd is `holdfast ls`.
type lsCmd struct {
	Pattern   text   `arg:"" optional:"" default:"*" help:"Names to list: * matches any text, ? any one byte, \\ makes the next byte literal. Default: all."`
	Kind      string `enum:",mutex,rw,semaphore,election,job,cond,latch" default:"" placeholder:"KIND" help:"Only of one kind: mutex, rw, semaphore, election, job, cond or latch."`
	Host      text   `placeholder:"NAME" help:"Only those that a process of this host holds or waits for."`
	OlderThan *span  `placeholder:"D" help:"Only those that somebody has held or waited for this long, such as 10m, by the store's clock."`
	Sort      string `enum:"name,held,waiters,ttl" default:"name" placeholder:"BY" help:"Order: name, held (longest first), waiters (most first) or ttl (shortest first). Default: name."`
	JSON      bool   `help:"One JSON object per resource and line."`

	watchFlag
}

// Help is the long text of --help.
func (*lsCmd) Help() string {
	return `Lists the resources that have holders or waiters. Quote the pattern for the shell.

Examples:
	holdfast ls
	holdfast ls 'stock:*' --older-than 10m --sort held
	holdfast ls --host "$(hostname)" --watch 2s
	holdfast ls --json | jq -r 'select(.waiters | length > 10) | .resource'`
}

// Run lists the resources.
func (c *lsCmd) Run(e *env) error {
	s, err := e.open()
	if err != nil {
		return err
	}
	defer s.close()
	// Many resources take their time; the engine reports sooner that a store is away.
	return c.watch(e, func(ctx context.Context) error {
		all, err := c.collect(ctx, s)
		if err != nil {
			return s.explain(err)
		}
		if !c.JSON {
			return c.print(e, all)
		}
		for _, snap := range all {
			if err := writeJSON(e.stdout, toJSON(snap)); err != nil {
				return err
			}
		}
		return nil
	})
}

// collect reads the list. Its first call has a limit, so that it fails soon if the store
// does not answer at all.
func (c *lsCmd) collect(ctx context.Context, s *session) ([]holdfast.Snapshot, error) {
	now, err := s.now(ctx)
	if err != nil {
		return nil, err
	}
	var all []holdfast.Snapshot
	for snap, err := range s.List(ctx, string(c.Pattern)) {
		if err != nil {
			return nil, err
		}
		if c.wants(snap, now) {
			all = append(all, snap)
		}
	}
	slices.SortFunc(all, c.order)
	return all, nil
}

// wants reports whether the resource passes the flags.
func (c *lsCmd) wants(s holdfast.Snapshot, now time.Time) bool {
	host, old := c.Host == "", c.OlderThan == nil
	party := func(on string, since time.Time) {
		host = host || on == string(c.Host)
		old = old || now.Sub(since) >= time.Duration(*c.OlderThan)
	}
	for _, h := range s.Holders {
		party(h.Host, h.Since)
	}
	for _, w := range s.Waiters {
		party(w.Host, w.Since)
	}
	return host && old && (c.Kind == "" || s.Kind == c.Kind)
}

// order compares by --sort, then by name.
func (c *lsCmd) order(a, b holdfast.Snapshot) int {
	by := 0
	switch c.Sort {
	case "held":
		by = heldSince(a).Compare(heldSince(b))
	case "waiters":
		by = len(b.Waiters) - len(a.Waiters)
	case "ttl":
		by = cmp.Compare(ttlLeft(a), ttlLeft(b))
	}
	return cmp.Or(by, cmp.Compare(a.Resource, b.Resource))
}

// heldSince returns when the first holder came; a resource that nobody holds is last.
func heldSince(s holdfast.Snapshot) time.Time {
	if len(s.Holders) == 0 {
		return time.Unix(1<<40, 0)
	}
	return s.Holders[0].Since
}

// ttlLeft returns the shortest TTL; a resource that nobody holds is last.
func ttlLeft(s holdfast.Snapshot) time.Duration {
	left := time.Duration(1<<63 - 1)
	for _, h := range s.Holders {
		left = min(left, h.TTL)
	}
	return left
}

func (c *lsCmd) print(e *env, all []holdfast.Snapshot) error {
	if len(all) == 0 {
		_, err := fmt.Fprintf(e.stdout, "no resource in use matches %q (prefix %q)\n", c.Pattern, e.prefix)
		return err
	}
	t := table(e.stdout, "RESOURCE\tKIND\tHOLDERS\tWAITERS\tHELD BY\tSINCE\tTTL LEFT\tREASON")
	for _, s := range all {
		fmt.Fprintf(t, "%s\t%s\t%d\t%d\t", cell(s.Resource), cell(s.Kind), len(s.Holders), len(s.Waiters))
		if len(s.Holders) == 0 {
			fmt.Fprintln(t, "-\t-\t-\t-")
			continue
		}
		h := s.Holders[0]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", cell(where(h.Name, h.Host, h.PID)), since(h.Since), short(h.TTL), cell(h.Reason))
	}
	return t.Flush()
}
