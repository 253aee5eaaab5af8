package diagnosis

import (
	"time"

	"github.com/holdfast-go/holdfast"
)

// Lifetime recommends a TTL, from the longest round trip or pause that was seen and the time that a failover
// takes, or 0 if there is none. A lease is renewed every third of its TTL, so two renewals may fail in
// the longest pause, and the third is still in time.
func Lifetime(c Check, worst, failover time.Duration, o Options) {
	least := max(holdfast.MinTTL, roundUp(6*worst))
	ride := rideOut(failover)
	c = c.With("smallest_ttl_ms", Millis(least)).With("ttl_ms", Millis(o.TTL))
	if failover > 0 {
		c = c.With("failover_ttl_ms", Millis(ride))
	}
	switch {
	case o.TTL < least:
		c.Warn("use a TTL of "+least.String()+" or more",
			"round trips and pauses of up to %s were seen: with a TTL of %s leases will be lost without need", Span(worst), o.TTL)
	case failover > 0 && o.TTL < ride:
		c.Warn("use a TTL of "+ride.String()+" or more, or shorten the failure detection",
			"a failover takes about %s: with a TTL of %s the leases on that master are lost (their contexts are cancelled in time)", Span(failover), o.TTL)
	case failover > 0:
		c.OK("a TTL of %s survives a failover of about %s; the shortest sensible one is %s", o.TTL, Span(failover), least)
	default:
		c.OK("the shortest sensible one is %s; checked: %s", least, o.TTL)
	}
}

// rideOut returns the TTL whose leases survive an outage: the last renewal may be a third of the TTL
// before it, and the margin is 2 % and 20 ms.
func rideOut(outage time.Duration) time.Duration { return roundUp(outage * 16 / 10) }

// roundUp rounds up to a round duration.
func roundUp(d time.Duration) time.Duration {
	for _, step := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second} {
		if d <= 10*step || step == 10*time.Second {
			return (d + step - 1) / step * step
		}
	}
	return d
}
