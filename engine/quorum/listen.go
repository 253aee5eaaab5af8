package quorum

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/holdfast-go/holdfast/engine"
)

// stream is the merged wake-ups of the nodes for one client.
type stream struct {
	e              *Engine
	prefix, client string
	deliver        func(engine.Wakeup)

	ctx    context.Context
	cancel context.CancelFunc
	opens  sync.WaitGroup

	sending sync.RWMutex // for writing: to close it
	closed  bool

	mu     sync.Mutex
	nodes  []engine.Listener   // by node; nil: not open
	live   bool                // Listen has returned
	broken map[engine.Held]int // which node told of a break first; what was made anew has another name there
}

// Listen implements engine.Engine. It returns when a majority of the nodes sends
// wake-ups; the others are tried until the stream is closed.
func (e *Engine) Listen(ctx context.Context, prefix, client string, deliver func(engine.Wakeup)) (engine.Listener, error) {
	if err := e.usable(ctx); err != nil {
		return nil, err
	}
	s := &stream{
		e: e, prefix: prefix, client: client, deliver: deliver,
		nodes: make([]engine.Listener, len(e.nodes)), broken: make(map[engine.Held]int),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	first := make(chan reply[struct{}], len(e.nodes))
	for _, n := range e.nodes {
		s.opens.Go(func() { s.open(n, first) })
	}
	c := claim{nodes: len(e.nodes), need: e.majority}
	for answers := 0; !c.held() && answers < len(e.nodes) && ctx.Err() == nil; answers++ {
		select {
		case r := <-first:
			c.hear(r.node, r.err)
		case <-ctx.Done():
		}
	}
	if !c.held() {
		err := shortfall(ctx, len(e.nodes), "send wake-ups", c.yes, c.need, c.bad)
		_ = s.Close()
		return nil, err
	}
	s.mu.Lock()
	s.live = true
	s.mu.Unlock()
	e.lines.open(s)
	return s, nil
}

// open opens the stream of one node, however long it takes. first gets the outcome of
// the first try.
func (s *stream) open(n *node, first chan<- reply[struct{}]) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		call, cancel := context.WithTimeout(s.ctx, patience)
		l, err := n.Listen(call, s.prefix, s.client, func(w engine.Wakeup) { s.hear(n, w) })
		cancel()
		if first != nil {
			first <- reply[struct{}]{node: n, err: err}
			first = nil
		}
		if err == nil {
			s.keep(n, l)
			return
		}
		if !rest(s.ctx, pause/2+rand.N(pause)) {
			return
		}
	}
}

// keep takes a stream that has been opened.
func (s *stream) keep(n *node, l engine.Listener) {
	s.mu.Lock()
	s.nodes[n.index] = l
	late := s.live
	s.mu.Unlock()
	if late {
		s.send(engine.Wakeup{Kind: engine.Resync})
	}
}

// hear translates what one node sends. A break is an operator's will, whichever node
// tells of it: the others are told again, or were given up.
func (s *stream) hear(n *node, w engine.Wakeup) {
	switch w.Kind {
	case engine.Resync, engine.WakeMarked:
		if w.ID == "" {
			s.send(w)
		} else if t := s.e.turns.find(w.ID); t != nil {
			t.call(n, s)
		}
	case engine.WakeBroken:
		if s.first(n, w.ID) {
			w.ID, _ = parseTry(w.ID)
			s.send(w)
		}
	}
}

// send delivers a wake-up, unless the stream is closed.
func (s *stream) send(w engine.Wakeup) {
	s.sending.RLock()
	defer s.sending.RUnlock()
	if !s.closed {
		s.deliver(w)
	}
}

// remembers is how many breaks are known at once.
const remembers = 256

// first tells whether a node is the first that tells of a break. One that tells of it
// again tells of another break.
func (s *stream) first(n *node, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lease engine.Held
	lease.ID, lease.Token = parseTry(id)
	teller, known := s.broken[lease]
	if known && teller != n.index {
		return false
	}
	if len(s.broken) >= remembers {
		clear(s.broken)
	}
	s.broken[lease] = n.index
	return true
}

// Close implements engine.Listener.
func (s *stream) Close() error {
	s.e.lines.close(s)
	s.sending.Lock()
	s.closed = true
	s.sending.Unlock()
	s.cancel()
	s.opens.Wait()
	s.mu.Lock()
	open := s.nodes
	s.nodes = make([]engine.Listener, len(open))
	s.mu.Unlock()
	for _, l := range open {
		if l != nil {
			_ = l.Close() // nothing is left that a failure could hurt
		}
	}
	return nil
}
