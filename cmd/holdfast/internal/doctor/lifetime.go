package doctor

import (
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// lifetime recommends a TTL.
func lifetime(r *diagnosis.Report, sites []*site, o diagnosis.Options) {
	worst, failover := time.Duration(0), time.Duration(0)
	heard := false
	for _, st := range sites {
		for _, s := range st.servers {
			if s.trouble == nil {
				heard = true
				worst = max(worst, s.rtts.Longest(), s.pause().took)
			}
		}
		failover = max(failover, st.failover())
	}
	if heard {
		diagnosis.Lifetime(diagnosis.Everywhere.Check("ttl", &r.Findings), worst, failover, o)
	}
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
