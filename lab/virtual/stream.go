package virtual

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// mended is how long after a fault a subscription is made anew.
const mended = 100 * time.Millisecond

// stream carries messages over a link, in order.
type stream struct {
	l      *link
	open   func(ctx context.Context, e engine.Engine) (io.Closer, error) // at the store
	resync func()

	mu      sync.Mutex
	inner   io.Closer
	pending []delayedMessage
	busy    chan struct{} // closed when the goroutine that delivers is done; nil if none
	closed  bool
}

// delayedMessage is a message on its way.
type delayedMessage struct {
	deliver func()
	at      time.Time
}

// Listen implements engine.Engine.
func (l *link) Listen(ctx context.Context, prefix, client string, deliver func(engine.Wakeup)) (engine.Listener, error) {
	s := &stream{l: l, resync: func() { deliver(engine.Wakeup{Kind: engine.Resync}) }}
	s.open = func(ctx context.Context, e engine.Engine) (io.Closer, error) {
		return e.Listen(ctx, prefix, client, func(w engine.Wakeup) {
			if w.Kind == engine.WakeGrant || w.Kind == engine.WakeMarked {
				w.TTL = l.answer(w.TTL)
			}
			w.Token = l.n.outside(w.Token)
			s.receive(func() { deliver(w) })
		})
	}
	return s.listen(ctx)
}

// listen opens the stream.
func (s *stream) listen(ctx context.Context) (io.Closer, error) {
	l := s.l
	got, err := request(ctx, l, func(ctx context.Context, e engine.Engine) (io.Closer, error) {
		s.mu.Lock()
		known := s.inner != nil
		s.mu.Unlock()
		if known {
			return s, nil // the request came twice
		}
		inner, err := s.open(context.WithoutCancel(ctx), e)
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
			return nil, s.Close() // its caller no longer waits
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

// receive takes a message from the store, unless it gets lost.
func (s *stream) receive(deliver func()) {
	if s.l.has(Cut, Hang, Deaf, Mute) || s.l.n.engine() == nil {
		return
	}
	s.send(deliver, s.l.travel())
}

// again reports to the process that wake-ups may have been lost. A driver with a
// connection of its own finds that out by itself.
func (s *stream) again() {
	if s.l.own == nil {
		s.send(s.resync, mended)
	}
}

// moved subscribes at the store's new self. The node's mutex is held.
func (s *stream) moved(e engine.Engine) {
	inner, err := s.open(context.Background(), e)
	if err != nil {
		return // it polls
	}
	s.mu.Lock()
	s.inner = inner
	s.mu.Unlock()
}

// send queues a message behind those that are under way.
func (s *stream) send(deliver func(), after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.pending = append(s.pending, delayedMessage{deliver, time.Now().Add(after)})
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
			next.deliver()
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
