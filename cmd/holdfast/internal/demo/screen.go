package demo

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// Drawing is how progress is shown.
type Drawing uint8

// The ways of drawing.
const (
	Lines    Drawing = iota // a line a second: for files and pipes
	Terminal                // one line, which is redrawn
)

// screen prints progress and events. It is for one goroutine.
type screen struct {
	w       io.Writer
	drawing Drawing
	drawn   bool      // the cursor is behind a bar
	last    time.Time // of the last line of progress
}

func newScreen(w io.Writer, d Drawing) *screen { return &screen{w: w, drawing: d, last: time.Now()} }

// progress shows the number of units sold, which may exceed the stock.
func (s *screen) progress(act string, sales, stock int) {
	const width = 30
	filled := min(width, sales*width/stock)
	bar := strings.Repeat("#", filled) + strings.Repeat(".", width-filled)
	line := fmt.Sprintf("  %-30s [%s] %d sold of %d", act, bar, sales, stock)
	switch {
	case s.drawing == Terminal:
		fmt.Fprintf(s.w, "\r\x1b[K%s", line)
		s.drawn = true
	case time.Since(s.last) >= time.Second:
		s.last = time.Now()
		fmt.Fprintln(s.w, line)
	}
}

// PushTable prints the figures of the second scene.
func PushTable(w io.Writer, acts []Push) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "nodes\treports\tusers\tpushed once\tpushed twice or more\tnot pushed\ttime\t  act")
	for _, a := range acts {
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%d\t%d\t%s\t  %s\n", a.Nodes, a.Reports, a.Users, a.Once, a.Again, a.Missed, seconds(a.Took), a.Name)
	}
	return t.Flush()
}

// clear removes the bar.
func (s *screen) clear() {
	if s.drawn {
		fmt.Fprint(s.w, "\r\x1b[K")
		s.drawn = false
	}
}

// note prints an event of the act with its time.
func (s *screen) note(at time.Duration, format string, args ...any) {
	s.clear()
	fmt.Fprintf(s.w, "  %6.2f s  %s\n", at.Seconds(), fmt.Sprintf(format, args...))
}

// say prints a line between the acts.
func (s *screen) say(format string, args ...any) {
	s.clear()
	fmt.Fprintf(s.w, format+"\n", args...)
}

// Table prints the figures of all acts.
func Table(w io.Writer, acts []Act) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "nodes\tstock\tsold\toversold\tlate writes refused\ttime\t  act")
	for _, a := range acts {
		refused := "-"
		if a.Locked {
			refused = fmt.Sprint(a.Refused)
		}
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%s\t%s\t  %s\n", a.Nodes, a.Stock, a.Sold, a.Oversold(), refused, seconds(a.Took), a.Name)
	}
	return t.Flush()
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }
