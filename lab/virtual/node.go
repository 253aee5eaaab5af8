package virtual

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// node is one store. It can be unreachable and lose its data.
type node struct {
	rate   float64              // of its clock, relative to the processes' clocks
	skew   time.Duration        // by which its clock is ahead of theirs
	server *miniredis.Miniredis // in the world Redis, otherwise nil
	shut   func()               // closes the connections of e to the server

	documents documents // in the worlds of documents, otherwise nil
	timed     bool      // clients can read its clock
	began     time.Time // when the store's clock and the bubble's were equal

	halt    chan struct{} // closed to end tick
	ticking chan struct{} // closed when tick has ended; nil: the clock was never set

	hit     func(Action) // counts what its faults do
	observe Observer     // of the engine, if it is in memory; nil: there is none

	mu      sync.Mutex
	ahead   time.Duration // sum of all jumps of the clock
	e       engine.Engine
	wipes   int              // number of times that it lost its data
	away    int              // number of steps that have made it unreachable
	why     Action           // the last one's
	streams map[*stream]bool // open subscriptions
}

func newNode(rate float64) *node {
	return &node{rate: rate, e: memory.New(), streams: map[*stream]bool{}}
}

// fresh returns an empty engine in memory.
func (n *node) fresh() engine.Engine {
	e := memory.New()
	if n.observe == nil {
		return e
	}
	return n.observe(e)
}

// engine returns the engine that executes requests, or nil while the store is away.
func (n *node) engine() engine.Engine {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away == 0 {
		return n.e
	}
	if n.why == Down {
		n.hit(Down)
	}
	return nil
}

// wiped returns how often the store has lost its data.
func (n *node) wiped() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.wipes
}

// takeDown makes a store unreachable for a while: all connections break.
func (w *simulation) takeDown(n *node, why Action, d time.Duration) {
	n.mu.Lock()
	n.away++
	n.why = why
	n.mu.Unlock()
	for _, p := range w.everyProcess() {
		for _, l := range p.links {
			if l.n == n {
				l.sever()
			}
		}
	}
	<-time.After(d)
	n.mu.Lock()
	n.away--
	open := n.open()
	n.mu.Unlock()
	for _, s := range open {
		s.again()
	}
}

// holders lists the holders of leases.
func (n *node) holders() (all []engine.Holder) {
	for s, err := range n.e.List(context.Background(), holdfast.DefaultPrefix, "*") {
		if err == nil {
			all = append(all, s.Holders...)
		}
	}
	return all
}

// wipe deletes everything and returns the holders of leases.
func (n *node) wipe() []engine.Holder {
	gone := n.holders()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wipes++
	if n.server != nil {
		n.server.FlushAll()
		return gone
	}
	if n.documents != nil {
		n.documents.Wipe()
		return gone
	}
	n.e = n.fresh()
	for _, s := range n.open() {
		s.moved(n.e)
	}
	return gone
}

// open lists the subscriptions. The mutex is held.
func (n *node) open() []*stream { return slices.Collect(maps.Keys(n.streams)) }

// inside converts a token of the processes to a token of the store's engine. The engine
// runs on the bubble's clock and compares tokens with that clock and with each other, so a
// store whose clock is ahead is simulated by tokens that are smaller by the same amount.
func (n *node) inside(token uint64) uint64 {
	if n.skew == 0 || token == 0 {
		return token
	}
	return uint64(max(1, int64(token)-n.skew.Microseconds()))
}

// outside converts a token of the store's engine to a token of the processes.
func (n *node) outside(token uint64) uint64 {
	if n.skew == 0 || token == 0 {
		return token
	}
	return uint64(int64(token) + n.skew.Microseconds())
}
