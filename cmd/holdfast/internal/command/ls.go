package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/describe"
)

// lsCmd is `holdfast ls`.
type lsCmd struct {
	Pattern   text   `arg:"" optional:"" default:"*" help:"Names to list: * matches any text, ? any one byte, \\ makes the next byte literal. Default: all."`
	Kind      string `enum:",mutex,rw,semaphore,election,job,cond,latch" default:"" placeholder:"KIND" help:"Only of one kind: mutex, rw, semaphore, election, job, cond or latch."`
	Host      text   `placeholder:"NAME" help:"Only those that a process of this host holds or waits for."`
	OlderThan *span  `placeholder:"D" help:"Only those that somebody has held or waited for this long, such as 10m, by the store's clock."`
	Marks     bool   `help:"List what is marked as done instead: work of holdfast once, of a Once or a Job, and open latches."`
	Sort      string `enum:",name,held,waiters,ttl" default:"" placeholder:"BY" help:"Order: name, held (longest first), waiters (most first) or ttl (shortest first). Default: name; with --json none, and each is printed as soon as it is found."`
	JSON      bool   `help:"One JSON object per resource and line."`

	watchFlag
}

// Help is the long text of --help.
func (*lsCmd) Help() string {
	return `Lists the resources that have holders or waiters. Quote the pattern for the shell.

A quorum does not show waiters: they are "?", and null with --json.

With --marks: what is marked as done, until when, who did it and when that began. The name of who did it is known
for an hour, after that only its ID. "holdfast once" with a period marks a name of each slot. Who opened a latch, and
when, is not recorded: both are "-", and marked_by is missing from --json.

Examples:
	holdfast ls
	holdfast ls 'stock:*' --older-than 10m --sort held
	holdfast ls --host "$(hostname)" --watch 2s
	holdfast ls --marks 'nightly-report*'
	holdfast ls --json | jq -r 'select(.waiters | length > 10) | .resource'`
}

// Run lists the resources.
func (c *lsCmd) Run(e *env) error {
	s, err := e.open()
	if err != nil {
		return err
	}
	defer s.close()
	return c.watch(e, func(ctx context.Context) error {
		if err := c.look(ctx, e, s); err != nil {
			return s.explain(err)
		}
		return nil
	})
}

// look lists once. Its first call has a time limit, so that it fails soon if the store does not
// answer at all; the list has none, since many resources take long.
func (c *lsCmd) look(ctx context.Context, e *env, s *session) error {
	now, err := s.now(ctx)
	if err != nil {
		return err
	}
	list := s.List
	if c.Marks {
		list = s.Marks
	}
	var all []holdfast.Snapshot
	for snap, err := range list(ctx, string(c.Pattern)) {
		if err != nil {
			return err
		}
		switch {
		case !c.wants(snap, now):
		case c.JSON && c.Sort == "":
			if err := writeJSON(e.stdout, describe.ToJSON(snap)); err != nil {
				return err
			}
		default:
			all = append(all, snap)
		}
	}
	slices.SortFunc(all, c.order)
	switch {
	case !c.JSON && c.Marks:
		return c.printMarks(e, all, now)
	case !c.JSON:
		return c.print(e, all)
	}
	for _, snap := range all {
		if err := writeJSON(e.stdout, describe.ToJSON(snap)); err != nil {
			return err
		}
	}
	return nil
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
	if c.Marks && s.MarkedBy.ID != "" {
		party(s.MarkedBy.Host, s.MarkedBy.Since)
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

// heldSince returns the time of the first grant; a resource without holders is last.
func heldSince(s holdfast.Snapshot) time.Time {
	if len(s.Holders) == 0 {
		return time.Unix(1<<40, 0)
	}
	return s.Holders[0].Since
}

// ttlLeft returns the shortest TTL; a resource without holders is last.
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
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t", cell(s.Resource), cell(s.Kind), len(s.Holders), waiters(s))
		if len(s.Holders) == 0 {
			fmt.Fprintln(t, "-\t-\t-\t-")
			continue
		}
		h := s.Holders[0]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", cell(where(h.Name, h.Host, h.PID)), since(h.Since), short(h.TTL), cell(h.Reason))
	}
	return t.Flush()
}

// waiters returns the number of waiters, or "?" if it is not known.
func waiters(s holdfast.Snapshot) string {
	if s.NoWaiters {
		return "?"
	}
	return strconv.Itoa(len(s.Waiters))
}

// printMarks prints the table of --marks. Until is an instant of the store's clock, whose
// present time is now.
func (c *lsCmd) printMarks(e *env, all []holdfast.Snapshot, now time.Time) error {
	if len(all) == 0 {
		_, err := fmt.Fprintf(e.stdout, "nothing that matches %q is marked as done (prefix %q)\n", c.Pattern, e.prefix)
		return err
	}
	t := table(e.stdout, "RESOURCE\tKIND\tDONE UNTIL\tLEFT\tBY\tBEGUN\tREASON")
	for _, s := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", cell(s.Resource), cell(s.Kind), since(now.Add(s.Marked)), short(s.Marked),
			cell(doneBy(s.MarkedBy)), since(s.MarkedBy.Since), cell(s.MarkedBy.Reason))
	}
	return t.Flush()
}

// doneBy describes the lease that set a mark, as far as it is recorded.
func doneBy(h holdfast.Holder) string {
	if h.Name == "" && h.Host == "" {
		return h.ID
	}
	return where(h.Name, h.Host, h.PID)
}
