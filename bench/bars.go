package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// bar is a limit for a figure of Holdfast.
type bar struct {
	scenario, label string
	contender       string
	metric          metric
	against         against
	sign            sign
	limit           float64
}

// sign is the good side of the limit.
type sign string

const (
	atMost  sign = "≤"
	atLeast sign = "≥"
)

// against is the divisor of a figure: none, a row of the same table, the best peer
// by this metric, or the same contender in another case.
type against struct {
	row      string
	bestPeer bool
	label    string
	minus    string // subtract this row instead
}

// verdict is a bar, its figure, and whether the bar is met.
type verdict struct {
	Scenario string
	Case     string `json:",omitempty"`
	Bar      string
	Measured float64
	Missing  bool `json:",omitempty"` // nothing was measured, or nothing to compare it with
	Met      bool
}

// judge returns the verdicts. A bar whose figure, or whose counterpart's, is missing is not met.
func judge(all []bar, tables []table) []verdict {
	var out []verdict
	for _, b := range all {
		out = append(out, b.judge(tables))
	}
	return out
}

func (b bar) judge(tables []table) verdict {
	t := tableOf(tables, b.scenario, b.label)
	r, _ := t.row(b.contender) // what is missing has no figures
	figure, measured := r.Figures[b.metric]
	got, beside, compared := figure.Median, "", true
	switch a := b.against; {
	case a.row != "":
		other, _ := t.row(a.row)
		got, compared = ratio(b.metric, r, other)
		beside = a.row
	case a.minus != "":
		other, _ := t.row(a.minus)
		_, compared = other.Figures[b.metric]
		got, beside = got-other.Figures[b.metric].Median, "beyond "+a.minus
	case a.bestPeer:
		other, found := t.bestPeer(b.metric)
		got, compared = ratio(b.metric, r, other)
		beside = "the best peer"
		if found {
			beside += " (" + other.Contender + ")"
		}
	case a.label != "":
		other, _ := tableOf(tables, b.scenario, a.label).row(b.contender)
		got, compared = ratio(b.metric, r, other)
		beside = "that of " + a.label
	}
	v := verdict{Scenario: b.scenario, Case: b.label, Measured: got, Missing: !measured || !compared}
	v.Met = !v.Missing && (b.sign == atMost && got <= b.limit || b.sign == atLeast && got >= b.limit)
	switch {
	case beside == "":
		v.Bar = fmt.Sprintf("%s: %s %s %g", b.contender, b.metric, b.sign, b.limit)
	case b.against.minus != "":
		v.Bar = fmt.Sprintf("%s: %s %s, %s %g", b.contender, b.metric, beside, b.sign, b.limit)
	default:
		v.Bar = fmt.Sprintf("%s: %s %s %g × %s", b.contender, b.metric, b.sign, b.limit, beside)
	}
	return v
}

// figure returns what was measured as text.
func (v verdict) figure() string {
	if v.Missing {
		return "not measured"
	}
	return digits(v.Measured)
}

// bestPeer returns the peer with the best median.
func (t table) bestPeer(m metric) (best row, ok bool) {
	for _, r := range t.Rows {
		got, played := r.Figures[m]
		if r.Role != peer || !played {
			continue
		}
		x, y := got.Median, best.Figures[m].Median
		if !ok || m.smallerIsBetter() && x < y || !m.smallerIsBetter() && x > y {
			best, ok = r, true
		}
	}
	return best, ok
}

func printBars(w io.Writer, all []verdict) {
	if len(all) == 0 {
		return
	}
	fmt.Fprintln(w, "bars")
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, v := range all {
		word := "met"
		if !v.Met {
			word = "MISSED"
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\t%s\n", v.Scenario, v.Case, v.Bar, v.figure(), word)
	}
	_ = tw.Flush() // to a terminal or a file, where a failure shows
}
