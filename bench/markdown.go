package main

import (
	"fmt"
	"io"
	"strings"
)

// markdown writes the tables and the bars.
func (o *outcome) markdown(w io.Writer) {
	fmt.Fprintf(w, "%s.\n", o.About)
	for _, t := range o.Tables {
		fmt.Fprintf(w, "\n### %s\n\n", t.heading())
		t.markdown(w)
	}
	fmt.Fprint(w, "\n### The bars\n\n")
	barsTable(w, o.Bars)
}

// markdown writes one table, without its heading.
func (t table) markdown(w io.Writer) {
	fmt.Fprint(w, "|")
	cells(w, " ", func(m metric) string { return string(m) }, t.Columns)
	fmt.Fprintf(w, "|---|%s\n", strings.Repeat("---:|", len(t.Columns)))
	for _, r := range t.Rows {
		name := r.Contender
		if r.Role == ours {
			name = "**" + name + "**"
		}
		fmt.Fprint(w, "|")
		cells(w, " "+name+" ", r.text, t.Columns)
	}
	t.failures(w)
}

// text returns a figure, or a dash if all slices failed.
func (r row) text(m metric) string {
	f, ok := r.Figures[m]
	if !ok {
		return "–"
	}
	return digits(f.Median)
}

func (t table) failures(w io.Writer) {
	if len(t.Failures) > 0 {
		fmt.Fprintf(w, "\nSlices that failed: %s.\n", strings.Join(t.Failures, "; "))
	}
}

func barsTable(w io.Writer, all []verdict) {
	if len(all) == 0 {
		return
	}
	fmt.Fprint(w, "| scenario | bar | measured | |\n|---|---|---:|---|\n")
	for _, v := range all {
		word := "met"
		if !v.Met {
			word = "**missed**"
		}
		name := v.Scenario
		if v.Case != "" {
			name += ", " + v.Case
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", name, v.Bar, v.figure(), word)
	}
}

func cells(w io.Writer, first string, text func(metric) string, columns []metric) {
	fmt.Fprintf(w, "%s|", first)
	for _, m := range columns {
		fmt.Fprintf(w, " %s |", text(m))
	}
	fmt.Fprintln(w)
}
