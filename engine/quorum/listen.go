package quorum

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/holdfast-go/holdfast/engine"
)

// mergedListener merges the wake-ups of the nodes for one client.
type mergedListener struct {
	e              *Engine
	prefix, client string
	deliver        func(engine.Wakeup)

	ctx     context.Context
	cancel  context.CancelFunc
	opening sync.WaitGroup

	mu       sync.RWMutex // locked for reading while a wake-up is delivered
	closed   bool
	nodes    []engine.Listener // by node; nil: not open
	returned bool              // Listen has returned
	broken   engine.Held       // the lease whose break was reported last
	brokenOn *node             // the node that reported it first
}

// Listen implements engine.Engine. It returns when it has subscribed to a majority of the nodes;
// it retries the others until the listener is closed.
func (e *Engine) Listen(ctx context.Context, prefix, client string, deliver func(engine.Wakeup)) (engine.Listener, error) {
	if err := e.ready(ctx); err != nil {
		return nil, err
	}
	l := &mergedListener{
		e: e, prefix: prefix, client: client, deliver: deliver,
		nodes: make([]engine.Listener, len(e.nodes)),
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	p := newFanOut[none](ctx, e, e.nodes)
	for _, n := range e.nodes {
		l.opening.Go(func() { l.open(n, p.replies) })
	}
	t := e.majorityTally()
	for r := range p.answers() {
		if t.add(r.node, r.err); t.confirmed() {
			break
		}
	}
	if err := t.outcome(ctx, "send wake-ups"); err != nil {
		_ = l.Close()
		return nil, err
	}
	l.mu.Lock()
	l.returned = true
	l.mu.Unlock()
	e.localQueues.addListener(l)
	return l, nil
}

// open subscribes to one node and retries until it succeeds or the listener is closed. first
// gets the outcome of the first try.
func (l *mergedListener) open(n *node, first chan<- nodeReply[none]) {
	for pause := minBackoff; ; pause = min(2*pause, maxBackoff) {
		ctx, cancel := context.WithTimeout(l.ctx, nodeTimeout)
		inner, err := n.Listen(ctx, l.prefix, l.client, func(w engine.Wakeup) { l.translate(n, w) })
		cancel()
		if first != nil {
			first <- nodeReply[none]{node: n, err: err}
			first = nil
		}
		if err == nil {
			l.mu.Lock()
			l.nodes[n.index] = inner
			late := l.returned
			l.mu.Unlock()
			if late { // the client may have missed wake-ups
				l.send(engine.Wakeup{Kind: engine.Resync})
			}
			return
		}
		if !sleep(l.ctx, pause/2+rand.N(pause)) {
			return
		}
	}
}

// translate delivers the wake-up of the client that corresponds to a wake-up of one node. It
// delivers a break as soon as one node reports it, and ignores the reports of the others.
func (l *mergedListener) translate(n *node, w engine.Wakeup) {
	switch w.Kind {
	case engine.Resync, engine.WakeMarked:
		if w.ID == "" {
			l.send(w)
		} else if t, ok := l.e.attempts.turns.Load(w.ID); ok {
			t.(*turn).called(n, l)
		}
	case engine.WakeBroken:
		if l.firstReport(n, w.ID) {
			w.ID, _ = parseLeaseID(w.ID)
			l.send(w)
		}
	}
}

// send delivers a wake-up, unless the listener is closed.
func (l *mergedListener) send(w engine.Wakeup) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if !l.closed {
		l.deliver(w)
	}
}

// firstReport reports whether a node is the first that reports a break. A second report of the
// same node is of another break.
func (l *mergedListener) firstReport(n *node, id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lease engine.Held
	lease.ID, lease.Token = parseLeaseID(id)
	if lease == l.broken && n != l.brokenOn {
		return false
	}
	l.broken, l.brokenOn = lease, n
	return true
}

// Close implements engine.Listener.
func (l *mergedListener) Close() error {
	l.e.localQueues.removeListener(l)
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.cancel()
	l.opening.Wait()
	l.mu.Lock()
	open := l.nodes
	l.nodes = make([]engine.Listener, len(open))
	l.mu.Unlock()
	for _, inner := range open {
		if inner != nil {
			_ = inner.Close() // it delivers nothing any more
		}
	}
	return nil
}
