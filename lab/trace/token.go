package trace

import (
	"fmt"
	"slices"
	"strings"
)

const tokenConfig = `SPECIFICATION TraceSpec
CONSTANTS
    End = 1000000000
    Reserve = 0
    Retention = 600000000
    Counts = FALSE
    Clocks = FALSE
    Early = FALSE
PROPERTIES Rises
`

// token writes a trace for TokenTrace, and returns of which event of the trace each of those is.
func (t Trace) token() (text string, of []int) {
	var events []string
	began, at := t.Events[0].At-1, t.Events[0].At
	since := func(token uint64) int64 { return int64(token) - t.Began - began }
	note := func(i int, format string, args ...any) {
		events = append(events, fmt.Sprintf("[after |-> %d, "+format+"]", append([]any{t.Events[i].At - at}, args...)...))
		of, at = append(of, i), t.Events[i].At
	}
	var held []Holder
	for i, e := range t.Events {
		fresh := slices.DeleteFunc(slices.Clone(e.Holds), func(h Holder) bool {
			return slices.ContainsFunc(held, func(b Holder) bool { return b.ID == h.ID })
		})
		for n, h := range fresh {
			note(i, "grant |-> TRUE, token |-> %d, reserve |-> %d, shown |-> %s, last |-> %d",
				since(h.Token), t.Fixed[h.ID].Reserve, boolean(n == len(fresh)-1), since(e.Last))
		}
		if len(fresh) == 0 && e.Last > 0 {
			note(i, "grant |-> FALSE, shown |-> TRUE, last |-> %d", since(e.Last))
		}
		held = e.Holds
	}
	if len(events) == 0 {
		note(0, "grant |-> FALSE, shown |-> FALSE, last |-> 0")
	}
	return "<<\n  " + strings.Join(events, ",\n  ") + ">>", of
}
