// Package describe has what the command and the dashboard write about a
// resource: its JSON, the meaning of a weight, and texts of other processes.
package describe

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// Text returns a text of another process for display. Characters that do not
// print, such as tabs, line ends, terminal controls and marks that change the
// direction of writing, are escaped as in a Go string.
func Text(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || !strconv.IsGraphic(r) }) {
		return text
	}
	quoted := strconv.QuoteToGraphic(text)
	return strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(quoted[1 : len(quoted)-1])
}

// Mode returns the meaning of a party's weight: "reader" or "writer" for a
// readers' and writers' lock, where a writer needs the whole capacity; "count 3"
// for the party that set a latch, and "wait" for its waiters; otherwise "".
func Mode(s holdfast.Snapshot, weight int) string {
	switch {
	case s.Kind == string(engine.KindLatch) && weight == s.Capacity:
		return "wait"
	case s.Kind == string(engine.KindLatch):
		return fmt.Sprintf("count %d", weight-holdfast.MaxCount)
	case s.Kind != string(engine.KindRW):
		return ""
	case weight == s.Capacity:
		return "writer"
	}
	return "reader"
}

// Milliseconds returns a duration as the JSON has it.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
