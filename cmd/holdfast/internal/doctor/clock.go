package doctor

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// reading is the difference between a server's clock and this machine's.
type reading struct {
	known bool
	ahead time.Duration // of this machine's clock
	error time.Duration // half the round trip
}

// look reads the clock once more and keeps the more exact reading.
func (r *reading) look(ctx context.Context, rdb *redis.Client) error {
	sent := time.Now()
	there, err := rdb.Time(ctx).Result()
	if err != nil {
		return err
	}
	half := time.Since(sent) / 2 // the server may have read its clock at any time between
	if !r.known || half < r.error {
		// Round(0) leaves the wall clock, which is what is compared.
		*r = reading{true, there.Sub(sent.Round(0).Add(half)), half}
	}
	return nil
}

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
			if s.trouble != nil || !s.clock.known {
				continue
			}
			count++
			if first == nil || s.clock.ahead < first.clock.ahead {
				first = s
			}
			if last == nil || s.clock.ahead > last.clock.ahead {
				last = s
			}
		}
	}
	if count == 0 {
		return nil
	}
	here := aheadOrBehind(first.clock)
	if count == 1 {
		return []diagnosis.Finding{first.OK(check, "%s; for information: clocks of clients do not matter", here).With("ahead_ms", diagnosis.Millis(first.clock.ahead))}
	}
	skew := max(0, last.clock.ahead-first.clock.ahead-last.clock.error-first.clock.error)
	f := diagnosis.Everywhere.OK(check, "the servers' clocks are within %s; %s is %s", diagnosis.Span(skew+last.clock.error+first.clock.error), first.Place, here)
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
	ahead, behind := -last.clock.ahead-last.clock.error, first.clock.ahead-first.clock.error
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

func aheadOrBehind(r reading) string {
	switch {
	case r.ahead > r.error:
		return diagnosis.Span(r.ahead) + " ahead of this machine (± " + diagnosis.Span(r.error) + ")"
	case r.ahead < -r.error:
		return diagnosis.Span(-r.ahead) + " behind this machine (± " + diagnosis.Span(r.error) + ")"
	}
	return "the same as this machine (± " + diagnosis.Span(r.error) + ")"
}
