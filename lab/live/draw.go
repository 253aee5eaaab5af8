package live

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/fault"
	"github.com/holdfast-go/holdfast/lab/pausepoint"
	"github.com/holdfast-go/holdfast/lab/process"
	"github.com/holdfast-go/holdfast/lab/stores"
)

// Setting selects the programs that are drawn.
type Setting struct {
	// Subject is an ID of package subject.
	Subject string
	// Nodes is the number of stores; 0: 1, and for a quorum 3 or 5.
	Nodes int
	// Kind is that of all resources; "": it is drawn.
	Kind Kind
	// Stores selects whether there are faults of stores.
	Stores Stores
	// Focus is a fault that every program has; empty: none.
	Focus Focus
}

// Stores is the owner of the stores.
type Stores uint8

// The owners.
const (
	OwnStores   Stores = iota // the lab, which may stop, kill and empty them
	OtherStores               // somebody else: the lab injects no faults of stores
)

// Draw returns the program of a seed.
func Draw(seed uint64, s Setting) Program {
	d := drawer{rand.New(rand.NewPCG(seed, 0x6c697665))}
	p := Program{
		Seed: seed, Subject: s.Subject, Nodes: s.Nodes,
		Workers: 2 + d.IntN(3), Hands: 1 + d.IntN(3),
		TTL:    drawn(d, 100, 150, 200, 300, 500*time.Millisecond/time.Millisecond) * time.Millisecond,
		Length: d.between(600*time.Millisecond, 1800*time.Millisecond),
	}
	p.History = recordsHistory(p)
	if p.Nodes == 0 {
		p.Nodes = 1
		if p.Subject == "holdfast-quorum" {
			p.Nodes = drawn(d, 3, 3, 3, 5)
		}
	}
	kinds := []Kind{Counter}
	p.Ways = []Way{Plain}
	calm := p.holdfast() && d.IntN(3) == 0 && s.Focus == "" // order and times are judged without faults
	switch {
	case calm:
		kinds = drawn(d, []Kind{Counter}, []Kind{Log}, []Kind{Pair}, []Kind{Semaphore}, []Kind{Pair, Semaphore}, []Kind{Counter, Slot})
		p.Ways = drawn(d, []Way{Plain}, []Way{NoTenure}, []Way{NoTenure})
	case p.holdfast():
		kinds = drawn(d, []Kind{Counter}, []Kind{Stock}, []Kind{Log}, []Kind{Pair}, []Kind{Semaphore}, []Kind{Slot, Counter},
			[]Kind{Pair, Semaphore}, []Kind{Counter, Log, Stock, Pair, Semaphore, Slot})
		p.Ways = drawn(d, []Way{Plain}, []Way{Plain, Plain, Try, NoTenure, NoRenewal}, []Way{NoTenure})
	}
	kinds = later(p, s, kinds)
	p.History = p.History && !slices.Contains(kinds, Moved) // of a turn two clients record a part each
	for _, k := range kinds {
		p.Resources = append(p.Resources, Resource{Name: string(k) + "0", Kind: k})
		if len(kinds) == 1 && d.IntN(2) == 0 {
			p.Resources = append(p.Resources, Resource{Name: string(k) + "1", Kind: k})
		}
	}
	clockRates(&p, s)
	if calm {
		return p
	}
	faults := d.faults(&p, s.Stores)
	if s.Focus != "" {
		faults = s.Focus.focused(&p, faults)
	}
	for _, f := range faults {
		p.Faults = append(p.Faults, f.String())
	}
	linger(&p)
	killLate(&p)
	stopAtPoints(&p, pausepoint.Names())
	return p
}

// drawer draws parts of a program.
type drawer struct{ *rand.Rand }

func drawn[T any](d drawer, from ...T) T { return from[d.IntN(len(from))] }

// between draws a duration in whole milliseconds.
func (d drawer) between(least, most time.Duration) time.Duration {
	return least + time.Duration(d.Int64N(int64((most-least)/time.Millisecond)+1))*time.Millisecond
}

// first is the earliest time of a fault; the workers work by then.
const first = 60 * time.Millisecond

// faults draws faults of processes, connections, stores and leases, in some programs of one
// kind only.
func (d drawer) faults(p *Program, whose Stores) fault.Schedule {
	can := p.store().Faults
	parts := []func(*Program) fault.Schedule{d.onProcess, d.onProcess}
	if can.Links {
		parts = append(parts, d.onLink)
	}
	if can.Pooled {
		parts = append(parts, d.onPools)
	}
	if p.holdfast() && slices.ContainsFunc(p.Resources, Resource.locked) {
		parts = append(parts, d.onLease, d.onLease)
	}
	if whose == OwnStores {
		parts = append(parts, d.onStore, d.onStore)
		if can.Takes { // what such a store is for
			parts = append(parts, d.onStore, d.onStore, d.onStore, d.onStore, d.onStore, d.onStore)
		}
	}
	if d.IntN(3) == 0 {
		parts = []func(*Program) fault.Schedule{drawn(d, parts...)}
	}
	var all fault.Schedule
	for range 1 + d.IntN(4) {
		fresh := drawn(d, parts...)(p)
		if !clash(all, fresh) {
			all = append(all, fresh...)
		}
	}
	return all
}

// clash reports whether a new fault has the target of another fault, or whether one of two
// faults kills the worker that the other needs.
func clash(all, fresh fault.Schedule) bool {
	for _, f := range fresh {
		for _, o := range all {
			who, other := bearer(f.Target), bearer(o.Target)
			dies := f.Kind == fault.Kill && who == f.Target && who[0] == 'w' || o.Kind == fault.Kill && other == o.Target && other[0] == 'w'
			if f.Target == o.Target || dies && who == other {
				return true
			}
		}
	}
	return false
}

// bearer returns the worker of a target that is a connection, otherwise the target.
func bearer(target string) string {
	i := slices.Index([]byte(target), '-')
	if i < 0 {
		return target
	}
	return target[:i]
}

func (d drawer) worker(p *Program) string { return fmt.Sprintf("w%d", 1+d.IntN(p.Workers)) }

// onProcess draws a pause or the death of a worker, at a time or between two steps of its
// work, or a step of its wall clock. The first worker is never killed.
func (d drawer) onProcess(p *Program) fault.Schedule {
	f := fault.Fault{Kind: drawn(d, fault.Pause, fault.Pause, fault.Pause, fault.Kill, fault.Kill, fault.StepClock), Target: d.worker(p)}
	if f.Kind == fault.StepClock && process.CanStep() {
		f.By = drawn(d, d.steps(p)...) * time.Second
		f.At = fault.After(d.between(first, p.Length*3/4))
		return fault.Schedule{f}
	}
	if f.Target == "w1" || f.Kind == fault.StepClock {
		f.Kind = fault.Pause
	}
	if f.Kind == fault.Pause {
		f.For = drawn(d, d.between(5*time.Millisecond, p.TTL), d.between(p.TTL/2, 3*p.TTL))
	}
	f.At = fault.After(d.between(first, p.Length*3/4))
	if d.IntN(2) == 0 {
		f.At = fault.When{Who: f.Target, Point: drawn(d, "acquired", "working", "working", "released"), Nth: 1 + d.IntN(4)}
	}
	return fault.Schedule{f}
}

// steps are those of a wall clock, in seconds: far, unless the clients have to agree within a minute.
func (d drawer) steps(p *Program) []time.Duration {
	if p.store().Clocks == stores.OfClients {
		return []time.Duration{-25, -3, -1, 1, 3, 25}
	}
	return []time.Duration{-7200, -660, -3, -1, 1, 3, 660, 7200}
}

// onLink draws a fault of the connections of a worker to a store, or to a majority of a quorum.
func (d drawer) onLink(p *Program) fault.Schedule {
	if p.Nodes > 1 && d.IntN(4) == 0 {
		return d.partition(p)
	}
	f := fault.Fault{
		Kind:   drawn(d, fault.Delay, fault.Cut, fault.Blackhole, fault.Deafen, fault.Mute, fault.LoseReply, fault.LoseReply),
		Target: fmt.Sprintf("%s-node%d", d.worker(p), 1+d.IntN(p.Nodes)),
		At:     fault.After(d.between(first, p.Length*2/3)),
	}
	switch f.Kind {
	case fault.LoseReply:
		f.Match = drawn(d, p.Resources...).Name
		f.At = fault.After(d.between(first, p.Length/2))
		return fault.Schedule{f}
	case fault.Delay:
		f.By = d.between(time.Millisecond, p.TTL)
	}
	f.For = drawn(d, d.between(5*time.Millisecond, p.TTL), d.between(p.TTL/2, 4*p.TTL))
	return fault.Schedule{f}
}

// onStore draws a pause of a store, or its death and restart with all of its data, without the latest, or without any.
func (d drawer) onStore(p *Program) fault.Schedule {
	target := fmt.Sprintf("node%d", 1+d.IntN(p.Nodes))
	at := fault.After(d.between(first, p.Length*2/3))
	away := drawn(d, d.between(5*time.Millisecond, p.TTL), d.between(p.TTL/2, 3*p.TTL))
	store := p.store()
	if store.Faults.Takes {
		return d.onMaster(p)
	}
	if store.Members > 1 { // longer than an election
		away = d.between(100*time.Millisecond, 3*time.Second)
		p.Length = max(p.Length, at.After+away+200*time.Millisecond)
	}
	back := fault.After(at.After + away)
	ways := 2
	switch {
	case store.Faults.Loses:
		ways = 6
	case store.Faults.Dies:
		ways = 4
	}
	switch d.IntN(ways) {
	case 0, 1:
		return fault.Schedule{{Kind: fault.Pause, Target: target, At: at, For: away}}
	case 2:
		p.Length = max(p.Length, at.After+store.Starts)
		return fault.Schedule{{Kind: fault.Restart, Target: target, At: at}}
	case 3:
		p.Length = max(p.Length, back.After+store.Starts+200*time.Millisecond)
		return fault.Schedule{{Kind: fault.Kill, Target: target, At: at}, {Kind: fault.Restart, Target: target, At: back}}
	case 4:
		if onRedis(p.Subject) {
			return d.rollBack(p)
		}
	}
	if p.Nodes > 1 { // it stays down until every lease that it granted has ended
		back = fault.After(at.After + outOfService(p.TTL))
	}
	p.Length = max(p.Length, back.After+300*time.Millisecond)
	if !p.holdfast() { // without tokens the lab cannot tell which leases were lost with the data
		return fault.Schedule{{Kind: fault.Restart, Target: target, At: at}}
	}
	return fault.Schedule{{Kind: fault.Kill, Target: target, At: at}, {Kind: fault.RestartEmpty, Target: target, At: back}}
}

// onPools takes all connections of a worker's pools for a while.
func (d drawer) onPools(p *Program) fault.Schedule {
	f := fault.Fault{Kind: fault.Exhaust, Target: d.worker(p), At: fault.After(d.between(first, p.Length/2))}
	f.For = drawn(d, d.between(5*time.Millisecond, p.TTL), d.between(p.TTL, 3*p.TTL), d.between(time.Second, 3*time.Second))
	p.Length = max(p.Length, f.At.After+f.For+200*time.Millisecond)
	return fault.Schedule{f}
}

// onLease draws an operator's break of a lease, by force or not.
func (d drawer) onLease(p *Program) fault.Schedule {
	var locked []string
	for _, r := range p.Resources {
		locked = append(locked, r.names()...)
	}
	return fault.Schedule{{Kind: drawn(d, fault.Break, fault.Break, fault.ForceBreak), Target: drawn(d, locked...),
		At: fault.After(d.between(first, p.Length/2))}}
}
