package programme

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Table writes the report for a terminal.
func (r Report) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(r.Scenarios) > 0 {
		fmt.Fprintln(t, "SCENARIO\tTHE LOCK THAT HAS THE HOLE\tHOLDFAST, SAME FAULTS")
	}
	for _, l := range r.lines(func(string) bool { return true }) {
		old := "-"
		if l.Old != nil {
			old = l.Old.String()
		}
		var held []string
		for _, c := range l.Holdfast {
			held = append(held, fmt.Sprintf("%s %v", c.Subject, c))
		}
		if len(held) == 0 {
			held = []string{"-"}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", l.Scenario, old, strings.Join(held, "; "))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	r.random(t)
	r.controls(t)
	for _, m := range r.Mutants {
		fmt.Fprintf(t, "mutant %q\tfound by %s\tafter %s\t%s\n", m.Name, strings.Join(m.By, ", "), Short(m.Took), m.Holds)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, text := range r.LeftOut {
		fmt.Fprintf(w, "\nLeft out: %s.\n", text)
	}
	_, err := fmt.Fprintf(w, "\n%s It took %s; first seed %d; %s.\n", r.Verdict(), Short(r.Took), r.Seed, r.Versions())
	return err
}

// controls writes what had to break beside the campaigns.
func (r Report) controls(w io.Writer) {
	if len(r.Controls()) > 0 {
		fmt.Fprintln(w, "\nCONTROL THAT HAS TO BREAK\tBROKEN BY\tHISTORIES")
	}
	for _, c := range r.Controls() {
		by := strings.Join(c.By, ", ")
		if !c.Broken {
			by = "NOT BROKEN " + c.Error
		}
		fmt.Fprintf(w, "%s\t%s\t%d\n", c.Name, by, c.Played)
	}
}

// random writes the campaigns.
func (r Report) random(w io.Writer) {
	if len(r.Random()) > 0 {
		fmt.Fprintln(w, "\nRANDOM FAULTS\tLOCK\tSEEDS\tHISTORIES\tLEASES\tFAULTS\tBROKEN")
	}
	for _, c := range r.Random() {
		where, faults, broken := "virtual time: "+c.World, "-", "0"
		if c.World == "live" {
			where, faults = "real processes", fmt.Sprint(c.Faults)
		}
		if c.Broken > 0 {
			broken = fmt.Sprintf("%d: %s", c.Broken, strings.Join(c.How, ", "))
		}
		played := fmt.Sprint(c.Played)
		if c.Invalid > 0 {
			played += fmt.Sprintf(" (+%d void)", c.Invalid)
		}
		fmt.Fprintf(w, "%s\t%s\t%d-%d\t%s\t%d\t%s\t%s\n", where, c.Subject, c.First, c.Last, played, c.Grants, faults, broken)
	}
}
