package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
)

// storeFigure is a column of the table that has a row for each store.
type storeFigure struct {
	title    string
	scenario string
	of       func(store) string // the contender
	metric   metric
	waiters  int // the case, in scenarios that have several
}

func storeFigures() []storeFigure {
	sync := func(store) string { return twoSyncs }
	return []storeFigure{
		{"two fdatasync, µs", "stores-pair", sync, pairTime, 0},
		{"two bare commits, µs", "stores-pair", store.twoCommits, pairTime, 0},
		{"Lock and Release, µs", "stores-pair", store.ours, pairTime, 0},
		{"p99 µs", "stores-pair", store.ours, pairP99, 0},
		{"64 goroutines: turns/s", "stores-crowd", store.ours, rate, 0},
		{"8 processes: hand-offs/s", "stores-processes", store.ours, handOffs, 0},
		{"200 waiting clients: hand-offs/s", "stores-waiters", store.ours, handOffs, 200},
		{"10,000 idle leases: writes/s", "stores-idle", store.ours, writeRate, 0},
		{"server core %", "stores-idle", store.ours, serverShare, 0},
		{"client core %", "stores-idle", store.ours, clientShare, 0},
	}
}

// storesTable writes what Holdfast costs on each store, next to each other.
func (o *outcome) storesTable(w io.Writer) {
	find := func(st store, f storeFigure) string {
		label := st.name
		if f.waiters > 0 {
			label = waitersLabel(st, f.waiters)
		}
		for _, t := range o.Tables {
			if t.Scenario != f.scenario || t.Case != label {
				continue
			}
			if r, ok := t.row(f.of(st)); ok {
				return r.text(f.metric)
			}
		}
		return ""
	}
	if !slices.ContainsFunc(o.Tables, func(t table) bool { return ofStores(t.Scenario) }) {
		return
	}
	head, line := "| |", "|---|"
	for _, st := range stores() {
		head += " " + st.name + " |"
		line += "---:|"
	}
	fmt.Fprintf(w, "%s\n%s\n", head, line)
	for _, f := range storeFigures() {
		fmt.Fprintf(w, "| %s |", f.title)
		for _, st := range stores() {
			fmt.Fprintf(w, " %s |", cmp.Or(find(st, f), "–"))
		}
		fmt.Fprintln(w)
	}
}
