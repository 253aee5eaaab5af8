package main

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/bench/chart"
)

// panels returns the metrics to plot for a scenario. A rate is never plotted without the
// worst caller's share and the longest wait.
func panels(scenario string) []metric {
	return map[string][]metric{
		"uncontended":      {pairTime, clientCPU, serverCPU, allocations},
		"spread":           {rate, worstCaller, longestWait, clientCPU},
		"hot":              {rate, worstCaller, longestWait},
		"readers":          {rate, worstCaller, longestWait, clientCPU},
		"readers-writer":   {rate, worstCaller, longestWait, writerP50, writerP99},
		"processes":        {handOffs, worstCaller, longestWait},
		"hand-off":         {gapP50, gapP99, inUse, worstCaller},
		"convoy":           {drainPart, commands, serverCPU},
		"growth":           {handOffs, worstCaller, longestWait, serverCPU},
		"kill":             {lateP50, lateMax},
		"kill-waiter":      {lateP50, lateMax},
		"visit":            {waitP50, waitP99},
		"network":          {pairTime, longestPair},
		"network-hand-off": {gapP50, gapP99, inUse, worstCaller},
		"topologies":       {rate, worstCaller, longestWait, serverCPU},
		"topologies-alone": {pairTime, pairP99, serverCPU},
		"quorum":           {pairTime, longestPair, goroutines},
		"scripts":          {serverCPU},
		"history":          {serverCPU, commands},
		"start":            {startP50, startCPU},
		"idle":             {clientShare, serverShare, heapEach, goroutinesEach},
		"stores-pair":      {pairTime, pairP99, serverCPU, clientCPU},
		"stores-crowd":     {rate, worstCaller, longestWait},
		"stores-processes": {handOffs, worstCaller, longestWait},
		"stores-waiters":   {handOffs, worstCaller, longestWait, serverCPU},
		"stores-idle":      {writeRate, serverShare, clientShare},
	}[scenario]
}

// plot writes the charts of all tables into a folder.
func (o *outcome) plot(dir string) error {
	var grown []table
	for _, t := range o.Tables {
		if t.Scenario == "growth" {
			grown = append(grown, t)
			continue
		}
		if err := t.plot(dir); err != nil {
			return err
		}
	}
	if len(grown) > 1 {
		return plotGrowth(dir, grown)
	}
	return nil
}

func (t table) plot(dir string) error {
	var all []chart.Panel
	for i, m := range panels(t.Scenario) {
		d := chart.Dots{Title: string(m)}
		for _, r := range t.Rows {
			f, ok := r.Figures[m]
			if !ok {
				continue
			}
			name := r.Contender
			if i > 0 {
				name = " " // named in the first panel; a blank keeps the height of the line
			}
			d.Dots = append(d.Dots, chart.Dot{Name: name, Role: r.Role.colour(), Value: f.Median, Min: f.Min, Max: f.Max})
		}
		all = append(all, d)
	}
	return chart.Write(filepath.Join(dir, t.file()), t.heading(), 11, 1.6+0.75*float64(len(t.Rows)+2), all...)
}

// file returns a name without characters that are special in shells and links.
func (t table) file() string {
	name := strings.TrimSuffix(t.Scenario+"-"+t.Case, "-")
	name, _, _ = strings.Cut(name, ", TTL")
	return strings.NewReplacer(" ", "-", "×", "x", ",", "", "---", "-", "-x-", "x").Replace(name)
}

func (r role) colour() chart.Role {
	switch r {
	case ours:
		return chart.Ours
	case peer:
		return chart.Peer
	}
	return chart.Floor
}

// plotGrowth draws a line for each contender over the sizes.
func plotGrowth(dir string, tables []table) error {
	var x []float64
	for _, t := range tables {
		n, err := strconv.ParseFloat(t.Case, 64)
		if err != nil {
			return err
		}
		x = append(x, n)
	}
	var all []chart.Panel
	var key chart.Key
	for _, m := range panels("growth") {
		l := chart.Lines{Title: string(m), XLabel: "waiting clients", X: x}
		for _, r := range tables[0].Rows {
			s := chart.Series{Name: r.Contender, Role: r.Role.colour()}
			for _, t := range tables {
				i := slices.IndexFunc(t.Rows, func(o row) bool { return o.Contender == r.Contender })
				s.Values = append(s.Values, t.Rows[i].Figures[m].Median)
			}
			l.Series = append(l.Series, s)
		}
		all, key.Series = append(all, l), l.Series
	}
	all = append(all, key)
	return chart.Write(filepath.Join(dir, "growth"), "growth: "+tables[0].Title, 8.5, 8, all...)
}
