package doctor

import (
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

const (
	// skewWarn is the difference between servers above which there is a warning.
	skewWarn = time.Second
	// skewFail is engine.MaxBallotAhead: above it a quorum's tokens are refused.
	skewFail = 24 * time.Hour
)

// clocks compares the servers' clocks with each other. After a failover the new master takes tokens
// from its own clock, unless it has the last one.
func clocks(r *diagnosis.Report, sites []*site) {
	c := diagnosis.Everywhere.Check("clock", &r.Findings)
	var first, last *server
	count := 0
	for _, st := range sites {
		for _, s := range st.servers {
			if s.trouble != nil || !s.clock.Known {
				continue
			}
			count++
			if first == nil || s.clock.Ahead < first.clock.Ahead {
				first = s
			}
			if last == nil || s.clock.Ahead > last.clock.Ahead {
				last = s
			}
		}
	}
	if count == 0 {
		return
	}
	here := first.clock.String()
	if count == 1 {
		c.At(first.Place).With("ahead_ms", diagnosis.Millis(first.clock.Ahead)).OK("%s; for information: clocks of clients do not matter", here)
		return
	}
	skew := max(0, last.clock.Ahead-first.clock.Ahead-last.clock.Error-first.clock.Error)
	c = c.With("skew_ms", diagnosis.Millis(skew))
	switch {
	case skew > skewFail && len(sites) > 1:
		c.Fail("let all machines set their clocks by NTP",
			"the clocks of %s and %s are %s apart: the one refuses the other's tokens", first.Place, last.Place, diagnosis.Span(skew))
	case skew > skewWarn:
		c.Warn("let all machines set their clocks by NTP, slewing",
			"the clocks of %s and %s are %s apart: after a failover that loses data tokens may be lower than before", first.Place, last.Place, diagnosis.Span(skew))
	default:
		c.OK("the servers' clocks are within %s; %s is %s", diagnosis.Span(skew+last.clock.Error+first.clock.Error), first.Place, here)
	}
	if len(sites) > 1 {
		ownClock(r, first, last)
	}
}

// ownClock compares this machine's clock with those of a quorum's nodes: it proposes
// the tokens.
func ownClock(r *diagnosis.Report, first, last *server) {
	c := diagnosis.Everywhere.Check("clock", &r.Findings)
	const mend = "let this machine set its clock by NTP, slewing"
	ahead, behind := -last.clock.Ahead-last.clock.Error, first.clock.Ahead-first.clock.Error
	switch {
	case ahead > skewFail:
		c.Fail(mend, "this machine's clock is %s ahead of all nodes: they refuse its tokens", diagnosis.Span(ahead))
	case ahead > skewWarn:
		c.Warn(mend, "this machine's clock is %s ahead of all nodes: its tokens are, too, and those of others follow them", diagnosis.Span(ahead))
	case behind > skewWarn:
		c.Warn(mend, "this machine's clock is %s behind all nodes: its leases may cost a round trip more", diagnosis.Span(behind))
	}
}
