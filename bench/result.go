package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// result is the table of one scenario and what it is judged by.
type result struct {
	Scenario string
	Unit     string
	Rows     []row
	Bars     []bar
}

// row is one contender's median and its ratio to the first row, taken round by
// round.
type row struct {
	Name   string
	Median float64
	Min    float64
	Max    float64
	Ratio  float64
}

// bar is a claim and whether it held.
type bar struct {
	Text string
	Got  float64
	Met  bool
}

// rowsOf makes rows from the figures of each round, in the order of names.
func rowsOf(names []string, figures map[string][]float64) []row {
	var rows []row
	base := figures[names[0]]
	for _, name := range names {
		f := figures[name]
		ratios := make([]float64, len(f))
		for i := range f {
			ratios[i] = f[i] / base[i]
		}
		rows = append(rows, row{name, median(f), slices.Min(f), slices.Max(f), median(ratios)})
	}
	return rows
}

func median(f []float64) float64 {
	s := slices.Sorted(slices.Values(f))
	return s[len(s)/2]
}

func (r *result) atMost(text string, got, limit float64) {
	r.Bars = append(r.Bars, bar{fmt.Sprintf("%s ≤ %g", text, limit), got, got <= limit})
}

func (r *result) atLeast(text string, got, limit float64) {
	r.Bars = append(r.Bars, bar{fmt.Sprintf("%s ≥ %g", text, limit), got, got >= limit})
}

// ratio returns the ratio of a row.
func (r *result) ratio(name string) float64 {
	for _, row := range r.Rows {
		if row.Name == name {
			return row.Ratio
		}
	}
	panic("bench: no row " + name)
}

func (r *result) print(w io.Writer) {
	fmt.Fprintf(w, "%s (%s)\n", r.Scenario, r.Unit)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "  \tmedian\tmin\tmax\tratio")
	for _, row := range r.Rows {
		fmt.Fprintf(tw, "  %s\t%.4g\t%.4g\t%.4g\t%.3f\n", row.Name, row.Median, row.Min, row.Max, row.Ratio)
	}
	_ = tw.Flush() // to a terminal or a file; what fails shows
	for _, b := range r.Bars {
		verdict := "met"
		if !b.Met {
			verdict = "MISSED"
		}
		fmt.Fprintf(w, "  %s: %s (%.3f)\n", verdict, b.Text, b.Got)
	}
	fmt.Fprintln(w)
}
