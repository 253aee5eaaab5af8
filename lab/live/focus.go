package live

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/fault"
)

// Focus is a fault that every program of a campaign has, besides others.
type Focus string

// The foci. They are for Holdfast on one Redis or several.
const (
	RollBack   Focus = "roll-back"  // a store loses its latest writes
	Muted      Focus = "mute"       // a worker hears a store, which gets nothing from it
	SlowDisk   Focus = "slow-disk"  // a store writes each command to its disk before it replies, and the disk is slow
	Partition  Focus = "partition"  // a worker is cut off from a majority of a quorum, in one direction or both
	ClockRates Focus = "clock-rate" // the clocks of stores run fast or slow
)

// Foci returns all of them for a subject.
func Foci(subject string) []Focus {
	if subject == "holdfast-quorum" {
		return []Focus{RollBack, SlowDisk, Muted, Partition, ClockRates}
	}
	return []Focus{RollBack, SlowDisk, Muted, ClockRates}
}

// focused puts a fault of the focus before those that were drawn, in place of those that clash with it. It draws from numbers of its
// own.
func (f Focus) focused(p *Program, drawn fault.Schedule) fault.Schedule {
	d := drawer{rand.New(rand.NewPCG(p.Seed, 0x666f637573))}
	var all fault.Schedule
	switch f {
	case RollBack:
		all = d.rollBack(p)
	case SlowDisk:
		all = d.slowDisk(p)
	case Muted:
		all = fault.Schedule{{Kind: fault.Mute, Target: fmt.Sprintf("%s-node%d", d.worker(p), 1+d.IntN(p.Nodes)),
			At: fault.After(d.between(first, p.Length*2/3)), For: d.between(p.TTL/2, 4*p.TTL)}}
	case Partition:
		all = d.partition(p)
	}
	clashing := func(one fault.Fault) bool { return clash(all, fault.Schedule{one}) }
	return append(all, slices.DeleteFunc(drawn, clashing)...)
}

// slowDisk draws a disk that is slow for a while, at times so slow that a command takes up to a TTL.
func (d drawer) slowDisk(p *Program) fault.Schedule {
	return fault.Schedule{{Kind: fault.SlowDisk, Target: fmt.Sprintf("node%d", 1+d.IntN(p.Nodes)),
		By: drawn(d, d.between(time.Millisecond, 20*time.Millisecond), d.between(20*time.Millisecond, p.TTL)),
		At: fault.After(d.between(first, p.Length*2/3)), For: d.between(p.TTL/2, 4*p.TTL)}}
}

// rollBack draws a copy of a store and its restoration: of one Redis at once or after a while, of a quorum for one node or, of five, two,
// which stay down until every lease that they granted has ended.
func (d drawer) rollBack(p *Program) (all fault.Schedule) {
	nodes := d.Perm(p.Nodes)[:1]
	if p.Nodes > 3 && d.IntN(2) == 0 {
		nodes = d.Perm(p.Nodes)[:2]
	}
	copied := d.between(first, p.Length/2)
	at := copied + drawn(d, d.between(30*time.Millisecond, 100*time.Millisecond), d.between(100*time.Millisecond, time.Second))
	away := drawn(d, 0, d.between(5*time.Millisecond, p.TTL))
	if p.Nodes > 1 {
		away = outOfService(p.TTL)
	}
	for _, n := range nodes {
		target := fmt.Sprintf("node%d", n+1)
		all = append(all, fault.Fault{Kind: fault.Copy, Target: target, At: fault.After(copied)})
		if away > 0 {
			all = append(all, fault.Fault{Kind: fault.Kill, Target: target, At: fault.After(at)})
		}
		all = append(all, fault.Fault{Kind: fault.RollBack, Target: target, At: fault.After(at + away)})
	}
	p.Length = max(p.Length, at+away+300*time.Millisecond)
	return all
}

// outOfService is how long a node of a quorum that has lost data stays down: until every lease that it granted has ended.
func outOfService(ttl time.Duration) time.Duration { return ttl*12/10 + 50*time.Millisecond }

// partition draws a fault of the connections of a worker to a majority of the nodes.
func (d drawer) partition(p *Program) (all fault.Schedule) {
	f := fault.Fault{Kind: drawn(d, fault.Blackhole, fault.Deafen, fault.Mute), At: fault.After(d.between(first, p.Length*2/3)), For: d.between(p.TTL/2, 4*p.TTL)}
	who := d.worker(p)
	for _, n := range d.Perm(p.Nodes)[:p.Nodes/2+1] {
		f.Target = fmt.Sprintf("%s-node%d", who, n+1)
		all = append(all, f)
	}
	return all
}
