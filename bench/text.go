package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
)

func (t table) heading() string {
	if t.Case == "" {
		return t.Scenario + ": " + t.Title
	}
	return t.Scenario + ", " + t.Case + ": " + t.Title
}

// print writes a table for a terminal. The ratio compares the first column with that
// of the first row.
func (t table) print(w io.Writer) {
	fmt.Fprintln(w, t.heading())
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(tw, "\t")
	for i, m := range t.Columns {
		fmt.Fprintf(tw, "%s\t", m)
		if i == 0 {
			fmt.Fprint(tw, "ratio\t")
		}
	}
	fmt.Fprintln(tw)
	for _, r := range t.Rows {
		fmt.Fprintf(tw, "%s\t", r.Contender)
		for i, m := range t.Columns {
			fmt.Fprintf(tw, "%s\t", digits(r.Figures[m].Median))
			if i == 0 {
				times, _ := ratio(m, r, t.Rows[0])
				fmt.Fprintf(tw, "%s\t", digits(times))
			}
		}
		fmt.Fprintln(tw)
	}
	_ = tw.Flush() // to a terminal or a file, where a failure shows
	for _, f := range t.Failures {
		fmt.Fprintf(w, "  failed in %s\n", f)
	}
	fmt.Fprintln(w)
}

// digits formats x with three significant digits, without an exponent.
func digits(x float64) string {
	switch a := math.Abs(x); {
	case a == 0:
		return "0"
	case a >= 100:
		return fmt.Sprintf("%.0f", x)
	case a >= 10:
		return fmt.Sprintf("%.1f", x)
	case a >= 1:
		return fmt.Sprintf("%.2f", x)
	default:
		return fmt.Sprintf("%.3f", x)
	}
}
