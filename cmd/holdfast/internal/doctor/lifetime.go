package doctor

import (
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// lifetime recommends a TTL. A lease is renewed every third of its TTL, so two renewals may fail in
// the longest pause or round trip that was seen, and the third is still in time.
func lifetime(sites []*site, o Options) []diagnosis.Finding {
	const check = "ttl"
	worst, failover := time.Duration(0), time.Duration(0)
	heard := false
	for _, st := range sites {
		for _, s := range st.servers {
			if s.trouble == nil {
				heard = true
				worst = max(worst, s.longest(), s.pause().took)
			}
		}
		failover = max(failover, st.failover())
	}
	if !heard {
		return nil
	}
	least := max(holdfast.MinTTL, roundUp(6*worst))
	ride := rideOut(failover)
	values := func(f diagnosis.Finding) []diagnosis.Finding {
		f = f.With("smallest_ttl_ms", diagnosis.Millis(least)).With("ttl_ms", diagnosis.Millis(o.TTL))
		if failover > 0 {
			f = f.With("failover_ttl_ms", diagnosis.Millis(ride))
		}
		return []diagnosis.Finding{f}
	}
	switch {
	case o.TTL < least:
		return values(diagnosis.Everywhere.Warn(check, "use a TTL of "+least.String()+" or more",
			"round trips and pauses of up to %s were seen: with a TTL of %s leases will be lost for nothing", diagnosis.Span(worst), o.TTL))
	case failover > 0 && o.TTL < ride:
		return values(diagnosis.Everywhere.Warn(check, "use a TTL of "+ride.String()+" or more, or shorten the failure detection",
			"a failover takes about %s: with a TTL of %s the leases on that master are lost (their holders are told in time)", diagnosis.Span(failover), o.TTL))
	case failover > 0:
		return values(diagnosis.Everywhere.OK(check, "a TTL of %s survives a failover of about %s; the shortest sensible one is %s", o.TTL, diagnosis.Span(failover), least))
	}
	return values(diagnosis.Everywhere.OK(check, "the shortest sensible one is %s; checked: %s", least, o.TTL))
}

// election is the approximate time from the detection of a failure until clients have found the new
// master.
const election = 2 * time.Second

// failover returns the approximate duration of a failover, or 0 if there is none.
func (s *site) failover() time.Duration {
	notice := time.Duration(0)
	for _, g := range s.sentinels {
		if ms, ok := g.master.number("down-after-milliseconds"); ok {
			notice = max(notice, time.Duration(ms)*time.Millisecond)
		}
	}
	for _, srv := range s.servers {
		if ms, ok := srv.conf.number("cluster-node-timeout"); ok && s.node.Kind == clusterURL {
			notice = max(notice, time.Duration(ms)*time.Millisecond)
		}
	}
	if notice == 0 {
		return 0
	}
	return notice + election
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
