package virtual

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// mended is how long after a fault a subscription is made anew.
const mended = 100 * time.Millisecond

// stream carries wake-ups over a link, in order.
type stream struct {
	l       *link
	prefix  string
	client  string
	deliver func(engine.Wakeup)

	mu      sync.Mutex
	inner   engine.Listener
	pending []delayedWakeup
	busy    chan struct{} // closed when the goroutine that delivers is done; nil if none
	closed  bool
}

// delayedWakeup is a wake-up on its way.
type delayedWakeup struct {
	w  engine.Wakeup
	at time.Time
}

// Listen implements engine.Engine.
func (l *link) Listen(ctx context.Context, prefix, client string, deliver func(engine.Wakeup)) (engine.Listener, error) {
	s := &stream{l: l, prefix: prefix, client: client, deliver: deliver}
	got, err := ask(ctx, l, func(ctx context.Context, e engine.Engine) (engine.Listener, error) {
		s.mu.Lock()
		known := s.inner != nil
		s.mu.Unlock()
		if known {
			return s, nil // the request came twice
		}
		inner, err := e.Listen(context.WithoutCancel(ctx), prefix, client, s.receive)
		if err != nil {
			return nil, err
		}
		l.n.mu.Lock()
		l.n.lines[s] = true
		l.n.mu.Unlock()
		s.mu.Lock()
		s.inner = inner
		late := s.closed
		s.mu.Unlock()
		if late {
			return nil, s.Close() // nobody has waited for it
		}
		return s, nil
	})
	if err != nil {
		s.mu.Lock()
		s.closed = true
		opened := s.inner != nil
		s.mu.Unlock()
		if opened {
			_ = s.Close()
		}
	}
	return got, err
}

// receive takes a wake-up from the store, unless it gets lost.
func (s *stream) receive(w engine.Wakeup) {
	if s.l.has(Cut, Hang, Deaf, Mute) || s.l.n.engine() == nil {
		return
	}
	if w.Kind == engine.WakeGrant || w.Kind == engine.WakeMarked {
		w.TTL = s.l.answer(w.TTL)
	}
	w.Token = s.l.n.outside(w.Token)
	s.send(w, s.l.travel())
}

// again reports to the process that wake-ups may have been lost. A driver with a
// connection of its own finds that out by itself.
func (s *stream) again() {
	if s.l.own == nil {
		s.send(engine.Wakeup{Kind: engine.Resync}, mended)
	}
}

// moved subscribes at the store's new self. The node's mutex is held.
func (s *stream) moved(e engine.Engine) {
	inner, err := e.Listen(context.Background(), s.prefix, s.client, s.receive)
	if err != nil {
		return // it polls
	}
	s.mu.Lock()
	s.inner = inner
	s.mu.Unlock()
}

// send queues a wake-up behind those that are under way.
func (s *stream) send(w engine.Wakeup, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.pending = append(s.pending, delayedWakeup{w, time.Now().Add(after)})
	if s.busy == nil {
		s.busy = make(chan struct{})
		go s.run(s.busy)
	}
}

// run delivers what is pending and ends.
func (s *stream) run(done chan struct{}) {
	defer close(done)
	for {
		s.mu.Lock()
		if s.closed || len(s.pending) == 0 {
			s.busy = nil
			s.mu.Unlock()
			return
		}
		next := s.pending[0]
		s.pending = s.pending[1:]
		s.mu.Unlock()
		if d := time.Until(next.at); d > 0 {
			<-time.After(d)
		}
		if s.l.p.gate() != nil {
			continue
		}
		s.mu.Lock()
		closed := s.closed
		s.mu.Unlock()
		if !closed {
			s.deliver(next.w)
		}
	}
}

// Close implements engine.Listener.
func (s *stream) Close() error {
	s.l.n.mu.Lock()
	delete(s.l.n.lines, s)
	s.l.n.mu.Unlock()
	s.mu.Lock()
	s.closed = true
	inner, busy := s.inner, s.busy
	s.mu.Unlock()
	err := inner.Close()
	if busy != nil {
		<-busy
	}
	return err
}
