package virtual

import (
	"context"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// node is one store. It can be away, and lose its data.
type node struct {
	rate   float64              // of its clock, by the processes' clocks
	skew   time.Duration        // by which its clock is ahead of theirs
	server *miniredis.Miniredis // nil: it is of the memory kind
	shut   func()               // ends the connection of e to the server

	documents documents // nil: it is not of the documents kind
	timed     bool      // its clock can be read
	began     time.Time // by both clocks

	halt    chan struct{} // ends what moves a clock on that was set
	ticking chan struct{} // closed when that has ended; nil: the clock was never set

	mu    sync.Mutex
	ahead time.Duration // by which the clock was set
	e     engine.Engine
	away  int
	lines map[*stream]bool // open subscriptions
}

func newNode(rate float64) *node {
	return &node{rate: rate, e: memory.New(), lines: map[*stream]bool{}}
}

// engine returns what answers now, or nil while the store is away.
func (n *node) engine() engine.Engine {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.away > 0 {
		return nil
	}
	return n.e
}

// takeDown breaks all connections for a while.
func (w *simulation) takeDown(n *node, d time.Duration) {
	n.mu.Lock()
	n.away++
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
	lines := n.open()
	n.mu.Unlock()
	for _, s := range lines {
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
	if n.server != nil {
		n.server.FlushAll()
		return gone
	}
	if n.documents != nil {
		n.documents.Wipe()
		return gone
	}
	n.e = memory.New()
	for _, s := range n.open() {
		s.moved(n.e)
	}
	return gone
}

// open lists the subscriptions. The mutex is held.
func (n *node) open() []*stream {
	var all []*stream
	for s := range n.lines {
		all = append(all, s)
	}
	return all
}

// inside is what a token means to a store whose clock is wrong: since it knows tokens
// only by comparing them with each other and with its clock, a store with a
// clock that is ahead is one that sees all tokens smaller by as much.
func (n *node) inside(token uint64) uint64 {
	if n.skew == 0 || token == 0 {
		return token
	}
	return uint64(max(1, int64(token)-n.skew.Microseconds()))
}

// outside is what one of its tokens is to the processes.
func (n *node) outside(token uint64) uint64 {
	if n.skew == 0 || token == 0 {
		return token
	}
	return uint64(int64(token) + n.skew.Microseconds())
}
