package live

import (
	"time"

	"github.com/holdfast-go/holdfast/lab/fault"
)

// rejoins is about how long a group of servers takes until a server that was away is a replica.
const rejoins = 500 * time.Millisecond

// onMaster draws a failover: an operator promotes a replica of a master that lives, or that is killed just then; or a master
// is killed or stopped, for so long that its replicas take over, or not. In some programs the replicas have not
// had what was written last. Leases are long enough to be held meanwhile, in most.
func (d drawer) onMaster(p *Program) fault.Schedule {
	const target = "node1"
	p.TTL = drawn(d, 300*time.Millisecond, time.Second, 2*time.Second, 3*time.Second)
	at := d.between(400*time.Millisecond, 1200*time.Millisecond)
	away := drawn(d, d.between(50*time.Millisecond, 800*time.Millisecond), d.between(1200*time.Millisecond, 3*time.Second))
	lead := d.between(20*time.Millisecond, 300*time.Millisecond)
	behind := d.IntN(2) == 0
	restart := fault.Fault{Kind: fault.Restart, Target: target, At: fault.After(at + away)}
	var all fault.Schedule
	switch d.IntN(6) {
	case 0, 1:
		all, away = fault.Schedule{{Kind: fault.Promote, Target: target, At: fault.After(at)}}, time.Second
		behind = behind && p.store().Name != "cluster" // a replica that is behind refuses
	case 2, 3:
		all = fault.Schedule{{Kind: fault.Failover, Target: target, At: fault.After(at)}, restart}
	case 4:
		all = fault.Schedule{{Kind: fault.Kill, Target: target, At: fault.After(at)}, restart}
	default:
		all = fault.Schedule{{Kind: fault.Pause, Target: target, At: fault.After(at), For: away}}
	}
	if behind { // it ends when the master answers again
		all = append(all, fault.Fault{Kind: fault.HoldBack, Target: target, At: fault.After(at - lead), For: lead + away + 100*time.Millisecond})
	}
	p.Length = max(p.Length, at+away+rejoins)
	return all
}
