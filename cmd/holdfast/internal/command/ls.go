package command

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/describe"
)

// lsCmd is `holdfast ls`.
type lsCmd struct {
	selection
	Marks bool   `help:"List what is marked as done instead: work of holdfast once, of a Once or a Job, and open latches."`
	Sort  string `enum:",name,held,waiters,ttl" default:"" placeholder:"BY" help:"Order: name, held (longest first), waiters (most first) or ttl (shortest first). Default: name; with --json none, and each is printed as soon as it is found."`
	JSON  bool   `help:"One JSON object per resource and line."`

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
	return e.with(func(ctx context.Context, s *session) error {
		return c.watch(ctx, e, func() error { return c.look(ctx, e, s) })
	})
}

// look lists once. Its first call has a time limit, so that it fails soon if the store does not
// answer at all; the list has none, since many resources take long.
func (c *lsCmd) look(ctx context.Context, e *env, s *session) error {
	now, err := s.now(ctx)
	if err != nil {
		return err
	}
	found := c.inUse(ctx, s, now)
	if c.Marks {
		found = c.marked(ctx, s, now)
	}
	var all []holdfast.Snapshot
	for snap, err := range found {
		if err != nil {
			return err
		}
		switch {
		case c.JSON && c.Sort == "":
			if err := writeJSON(e.stdout, describe.ToJSON(snap)); err != nil {
				return err
			}
		default:
			all = append(all, snap)
		}
	}
	sortBy(c.Sort, all)
	switch {
	case !c.JSON && c.Marks:
		return c.printMarks(e, all, now)
	case !c.JSON && len(all) == 0:
		return c.none(e)
	case !c.JSON:
		return printResources(e.stdout, all)
	}
	for _, snap := range all {
		if err := writeJSON(e.stdout, describe.ToJSON(snap)); err != nil {
			return err
		}
	}
	return nil
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
