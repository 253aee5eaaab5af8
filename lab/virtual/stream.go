package virtual

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// mended is the time from the end of a fault until a subscription receives its resync.
const mended = 100 * time.Millisecond

// stream carries messages over a link, in order.
type stream struct {
	l      *link
	open   func(ctx context.Context, e engine.Engine) (io.Closer, error) // subscribes at the store
	resync func()

	mu      sync.Mutex
	inner   io.Closer
	pending []delayedMessage
	busy    chan struct{} // closed when the goroutine in run has ended; nil: there is none
	closed  bool
}

// delayedMessage is a message that is delivered at an instant.
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
			if w.Kind == engine.WakeWanted {
				s.recall(func() { deliver(w) })
				return
			}
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
			return s, nil // Twice has sent the request again
		}
		inner, err := s.open(context.WithoutCancel(ctx), e)
		if err != nil {
			return nil, err
		}
		l.n.mu.Lock()
		l.n.streams[s] = true
		l.n.mu.Unlock()
		s.mu.Lock()
		s.inner = inner
		late := s.closed
		s.mu.Unlock()
		if late {
			return nil, s.Close() // the caller no longer waits
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

// receive sends a message of the store to the process, unless a fault loses it.
func (s *stream) receive(deliver func()) {
	if !s.lost() {
		s.send(deliver, s.l.travel())
	}
}

// lost reports whether a fault loses the messages of the store.
func (s *stream) lost() bool { return s.l.has(Cut, Hang, Deaf, Mute) || s.l.n.engine() == nil }

// again sends a resync: wake-ups may have been lost. The driver of a link with connections
// of its own detects that.
func (s *stream) again() {
	if s.l.own == nil {
		s.send(s.resync, mended)
	}
}

// moved subscribes at the engine that has replaced the store's engine. The node's mutex is held.
func (s *stream) moved(e engine.Engine) {
	inner, err := s.open(context.Background(), e)
	if err != nil {
		return // the process still polls
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

// run delivers the pending messages and returns.
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
	delete(s.l.n.streams, s)
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
