package main

import (
	"context"
	"fmt"
	"sort"

	"github.com/holdfast-go/holdfast"
)

// lsCmd is `holdfast ls`.
type lsCmd struct {
	Pattern text `arg:"" optional:"" default:"*" help:"Names to list: * is any text, ? any one byte, \\ takes the next byte as it is. Default: all."`
	JSON    bool `help:"One JSON object a resource and line."`
}

// Help is the long text of --help.
func (*lsCmd) Help() string {
	return `Lists the resources that somebody holds or waits for, by name. Quote the pattern for the shell.

Examples:
	holdfast ls
	holdfast ls 'stock:*'
	holdfast ls --json | jq -r 'select(.waiters | length > 10) | .resource'`
}

// Run lists the resources.
func (c *lsCmd) Run(e *env) error {
	s, err := e.open()
	if err != nil {
		return err
	}
	defer s.close()
	// Many resources take their time; a store that is away is told sooner, by
	// the engine.
	sigs, stop := catchSignals()
	defer stop()
	ctx, end := endBySignal(sigs)
	defer end()
	all, err := c.collect(ctx, s)
	if sig := signalOf(ctx); sig != nil {
		return sig
	}
	if err != nil {
		return explain(err, s.at)
	}
	if c.JSON {
		for _, snap := range all {
			if err := writeJSON(e.stdout, toJSON(snap)); err != nil {
				return err
			}
		}
		return nil
	}
	return c.print(e, all)
}

// collect reads the list. Its first question is bounded, so that a store that
// does not answer at all is told soon.
func (c *lsCmd) collect(ctx context.Context, s *session) ([]holdfast.Snapshot, error) {
	if err := s.reach(ctx); err != nil {
		return nil, err
	}
	var all []holdfast.Snapshot
	for snap, err := range s.List(ctx, string(c.Pattern)) {
		if err != nil {
			return nil, err
		}
		all = append(all, snap)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Resource < all[j].Resource })
	return all, nil
}

func (c *lsCmd) print(e *env, all []holdfast.Snapshot) error {
	if len(all) == 0 {
		_, err := fmt.Fprintf(e.stdout, "nobody holds or waits for a resource that matches %q (prefix %q)\n", c.Pattern, e.prefix)
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
