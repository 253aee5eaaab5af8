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
func clocks(sites []*site) []diagnosis.Finding {
	const check = "clock"
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
		return nil
	}
	here := first.clock.String()
	if count == 1 {
		return []diagnosis.Finding{first.OK(check, "%s; for information: clocks of clients do not matter", here).With("ahead_ms", diagnosis.Millis(first.clock.Ahead))}
	}
	skew := max(0, last.clock.Ahead-first.clock.Ahead-last.clock.Error-first.clock.Error)
	f := diagnosis.Everywhere.OK(check, "the servers' clocks are within %s; %s is %s", diagnosis.Span(skew+last.clock.Error+first.clock.Error), first.Place, here)
	if skew > skewWarn {
		f = diagnosis.Everywhere.Warn(check, "let all machines set their clocks by NTP, slewing",
			"the clocks of %s and %s are %s apart: after a failover that loses data tokens may be lower than before", first.Place, last.Place, diagnosis.Span(skew))
	}
	if skew > skewFail && len(sites) > 1 {
		f = diagnosis.Everywhere.Fail(check, "let all machines set their clocks by NTP",
			"the clocks of %s and %s are %s apart: the one refuses the other's tokens", first.Place, last.Place, diagnosis.Span(skew))
	}
	found := []diagnosis.Finding{f.With("skew_ms", diagnosis.Millis(skew))}
	if len(sites) > 1 {
		found = append(found, ownClock(first, last)...)
	}
	return found
}

// ownClock compares this machine's clock with those of a quorum's nodes: it proposes
// the tokens.
func ownClock(first, last *server) []diagnosis.Finding {
	const check = "clock"
	const mend = "let this machine set its clock by NTP, slewing"
	ahead, behind := -last.clock.Ahead-last.clock.Error, first.clock.Ahead-first.clock.Error
	switch {
	case ahead > skewFail:
		return []diagnosis.Finding{diagnosis.Everywhere.Fail(check, mend, "this machine's clock is %s ahead of all nodes: they refuse its tokens", diagnosis.Span(ahead))}
	case ahead > skewWarn:
		return []diagnosis.Finding{diagnosis.Everywhere.Warn(check, mend, "this machine's clock is %s ahead of all nodes: its tokens are, too, and those of others follow them", diagnosis.Span(ahead))}
	case behind > skewWarn:
		return []diagnosis.Finding{diagnosis.Everywhere.Warn(check, mend, "this machine's clock is %s behind all nodes: its leases may cost a round trip more", diagnosis.Span(behind))}
	}
	return nil
}
