package doctor

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
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
func clocks(sites []*site) []Finding {
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
		return []Finding{first.ok(check, "%s; for information: clocks of clients do not matter", here).with("ahead_ms", millis(first.clock.ahead))}
	}
	skew := max(0, last.clock.ahead-first.clock.ahead-last.clock.error-first.clock.error)
	f := everywhere.ok(check, "the servers' clocks are within %s; %s is %s", span(skew+last.clock.error+first.clock.error), first.place, here)
	if skew > skewWarn {
		f = everywhere.warn(check, "let all machines set their clocks by NTP, slewing",
			"the clocks of %s and %s are %s apart: after a failover that loses data tokens may be lower than before", first.place, last.place, span(skew))
	}
	if skew > skewFail && len(sites) > 1 {
		f = everywhere.fail(check, "let all machines set their clocks by NTP",
			"the clocks of %s and %s are %s apart: the one refuses the other's tokens", first.place, last.place, span(skew))
	}
	found := []Finding{f.with("skew_ms", millis(skew))}
	if len(sites) > 1 {
		found = append(found, ownClock(first, last)...)
	}
	return found
}

// ownClock compares this machine's clock with those of a quorum's nodes: it proposes
// the tokens.
func ownClock(first, last *server) []Finding {
	const check = "clock"
	const mend = "let this machine set its clock by NTP, slewing"
	ahead, behind := -last.clock.ahead-last.clock.error, first.clock.ahead-first.clock.error
	switch {
	case ahead > skewFail:
		return []Finding{everywhere.fail(check, mend, "this machine's clock is %s ahead of all nodes: they refuse its tokens", span(ahead))}
	case ahead > skewWarn:
		return []Finding{everywhere.warn(check, mend, "this machine's clock is %s ahead of all nodes: its tokens are, too, and those of others follow them", span(ahead))}
	case behind > skewWarn:
		return []Finding{everywhere.warn(check, mend, "this machine's clock is %s behind all nodes: its leases may cost a round trip more", span(behind))}
	}
	return nil
}

func aheadOrBehind(r reading) string {
	switch {
	case r.ahead > r.error:
		return span(r.ahead) + " ahead of this machine (± " + span(r.error) + ")"
	case r.ahead < -r.error:
		return span(-r.ahead) + " behind this machine (± " + span(r.error) + ")"
	}
	return "the same as this machine (± " + span(r.error) + ")"
}
