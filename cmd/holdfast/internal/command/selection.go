package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
)

// selection are the flags that select resources, of ls and top.
type selection struct {
	Pattern   text   `arg:"" optional:"" default:"*" help:"Names to list: * matches any text, ? any one byte, \\ makes the next byte literal. Default: all."`
	Kind      string `enum:",mutex,rw,semaphore,election,job,cond,latch" default:"" placeholder:"KIND" help:"Only of one kind: mutex, rw, semaphore, election, job, cond or latch."`
	Host      text   `placeholder:"NAME" help:"Only those that a process of this host holds or waits for."`
	OlderThan *span  `placeholder:"D" help:"Only those that somebody has held or waited for this long, such as 10m, by the store's clock."`
}

// inUse yields the selected resources in use, in no order. now is the time of the store.
func (c *selection) inUse(ctx context.Context, s *session, now time.Time) iter.Seq2[holdfast.Snapshot, error] {
	return only(s.List(ctx, string(c.Pattern)), func(snap holdfast.Snapshot) bool { return c.wants(snap, nil, now) })
}

// marked yields the selected resources that are marked as done.
func (c *selection) marked(ctx context.Context, s *session, now time.Time) iter.Seq2[holdfast.Snapshot, error] {
	return only(s.Marks(ctx, string(c.Pattern)), func(snap holdfast.Snapshot) bool { return c.wants(snap, &snap.MarkedBy, now) })
}

// only yields the errors and what is wanted.
func only(all iter.Seq2[holdfast.Snapshot, error], wanted func(holdfast.Snapshot) bool) iter.Seq2[holdfast.Snapshot, error] {
	return func(yield func(holdfast.Snapshot, error) bool) {
		for snap, err := range all {
			if (err != nil || wanted(snap)) && !yield(snap, err) {
				return
			}
		}
	}
}

// wants reports whether the resource passes the flags. by is the party that set a mark, if it counts.
func (c *selection) wants(s holdfast.Snapshot, by *holdfast.Holder, now time.Time) bool {
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
	if by != nil && by.ID != "" {
		party(by.Host, by.Since)
	}
	return host && old && (c.Kind == "" || s.Kind == c.Kind)
}

// none prints that nothing is in use.
func (c *selection) none(e *env) error {
	_, err := fmt.Fprintf(e.stdout, "no resource in use matches %q (prefix %q)\n", c.Pattern, e.prefix)
	return err
}

// sortBy sorts by name, held, waiters or ttl; equal ones, and all by any other, by name.
func sortBy(by string, all []holdfast.Snapshot) {
	slices.SortFunc(all, func(a, b holdfast.Snapshot) int {
		first := 0
		switch by {
		case "held":
			first = heldSince(a).Compare(heldSince(b))
		case "waiters":
			first = len(b.Waiters) - len(a.Waiters)
		case "ttl":
			first = cmp.Compare(ttlLeft(a), ttlLeft(b))
		}
		return cmp.Or(first, cmp.Compare(a.Resource, b.Resource))
	})
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

// printResources prints the table of resources: a header, and one line for each.
func printResources(w io.Writer, all []holdfast.Snapshot) error {
	t := table(w, "RESOURCE\tKIND\tHOLDERS\tWAITERS\tHELD BY\tSINCE\tTTL LEFT\tREASON")
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
