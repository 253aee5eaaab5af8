package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"
)

// measure runs one contender for one slice.
type measure func(ctx context.Context, s *testbed, c contender) (figures, error)

// scenario is one situation in one or more variants.
type scenario struct {
	name  string // for -only
	title string
	// columns are the figures shown; contenders are compared by the first.
	columns []metric
	cases   []variant
	// rounds multiplies the number of rounds; 0 is 1.
	rounds float64
}

// variant is one size or state of a scenario.
type variant struct {
	label      string // empty if it is the only one
	contenders []string
	measure    measure
	// once are contenders with a single round, because their slices take too long.
	once []string
}

// store returns the name of the store that is measured, or "" in scenarios that are not of stores.
func (v variant) store() string {
	if c, err := contenderNamed(v.contenders[0]); err == nil {
		return c.on.store
	}
	return ""
}

// withRate is shown with every rate.
var withRate = []metric{worstCaller, longestWait, waitP50, commands, reads, serverCPU, clientCPU, allocations}

// table is the outcome of one variant.
type table struct {
	Scenario string
	Case     string `json:",omitempty"`
	Title    string
	Columns  []metric
	Rows     []row
	Failures []string `json:",omitempty"` // slices that failed
}

// row is one contender.
type row struct {
	Contender string
	Role      role
	Figures   map[metric]spread
	rounds    []figures
}

// spread summarizes a figure over the rounds.
type spread struct{ Median, Min, Max float64 }

// run runs all rounds of a variant. In each round every contender has a slice, so
// that a machine that is slow for a while is slow for all. Their order is random: in a
// fixed order each would always follow the same other one, which alone makes a
// difference of up to three microseconds a pair.
func (sc scenario) run(ctx context.Context, s *testbed, v variant, progress io.Writer) (table, error) {
	t := table{Scenario: sc.name, Case: v.label, Title: sc.title, Columns: sc.columns}
	var all []contender
	for _, name := range v.contenders {
		c, err := contenderNamed(name)
		if err != nil {
			return t, err
		}
		all = append(all, c)
		t.Rows = append(t.Rows, row{Contender: c.name, Role: c.role})
	}
	rounds := s.rounds
	if sc.rounds > 0 {
		rounds = max(1, int(float64(rounds)*sc.rounds))
	}
	for round := range rounds {
		for _, i := range rand.Perm(len(all)) {
			if round > 0 && slices.Contains(v.once, all[i].name) {
				continue
			}
			start := time.Now()
			f, err := s.measure(ctx, v, all[i])
			if err != nil && (ctx.Err() != nil || sc.ends(all[i], err)) {
				return t, fmt.Errorf("%s %s, %s: %w", sc.name, v.label, all[i].name, err)
			}
			if err != nil {
				t.Failures = append(t.Failures, fmt.Sprintf("round %d, %s: %v", round+1, all[i].name, err))
			}
			t.Rows[i].rounds = append(t.Rows[i].rounds, f)
			fmt.Fprintf(progress, "%s %s, round %d, %s: %.3g %s in %v\n", sc.name, v.label, round+1, all[i].name,
				f[sc.columns[0]], sc.columns[0], time.Since(start).Round(time.Millisecond))
		}
	}
	for i := range t.Rows {
		t.Rows[i].summarize()
	}
	return t, nil
}

// ends reports whether a slice that failed ends the run. Otherwise it is reported: peers may fail, and on a slow
// disk so may a call to any store, but Holdfast's mutex may never have two holders.
func (sc scenario) ends(c contender, err error) bool {
	return c.role == ours && (!ofStores(sc.name) || errors.Is(err, errTwoHolders))
}

// summarize computes the median and range of each figure.
func (r *row) summarize() {
	by := map[metric][]float64{}
	for _, f := range r.rounds {
		for m, x := range f {
			by[m] = append(by[m], x)
		}
	}
	r.Figures = map[metric]spread{}
	for m, f := range by {
		r.Figures[m] = spread{median(f), slices.Min(f), slices.Max(f)}
	}
}

// ratio returns the median of a's figures divided by b's, round by round. Rounds
// without a figure in both rows are skipped.
func ratio(m metric, a, b row) (r float64, ok bool) {
	var out []float64
	for i := range min(len(a.rounds), len(b.rounds)) {
		if a.rounds[i] != nil && b.rounds[i][m] != 0 {
			out = append(out, a.rounds[i][m]/b.rounds[i][m])
		}
	}
	return median(out), len(out) > 0
}

// tableOf returns the table of a case, or an empty one.
func tableOf(all []table, scenario, label string) table {
	i := slices.IndexFunc(all, func(t table) bool { return t.Scenario == scenario && t.Case == label })
	if i < 0 {
		return table{}
	}
	return all[i]
}

// row returns the row of a contender.
func (t table) row(name string) (row, bool) {
	i := slices.IndexFunc(t.Rows, func(r row) bool { return r.Contender == name })
	if i < 0 {
		return row{}, false
	}
	return t.Rows[i], true
}
