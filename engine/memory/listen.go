package memory

import (
	"context"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/internal/translate"
	"github.com/holdfast-go/holdfast/internal/queue"
)

// address is the receiver of wake-ups: one client below one prefix.
type address struct {
	prefix, client string
}

// subscriber passes wake-ups to one deliver function, one at a time and in the
// order of the operations that sent them. The goroutine of an operation does
// this when it holds no mutex. If another goroutine is delivering, that one
// also delivers the new wake-ups.
type subscriber struct {
	engine  *Engine
	at      address
	deliver func(engine.Wakeup)

	mu      sync.Mutex
	pending []engine.Wakeup
	busy    chan struct{} // closed when the goroutine that delivers is done; nil if none
	closed  bool
}

// Listen implements engine.Engine. No wake-up is lost, so there is no Resync.
func (e *Engine) Listen(ctx context.Context, prefix, client string, deliver func(engine.Wakeup)) (engine.Listener, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	l := &subscriber{engine: e, at: address{prefix, client}, deliver: deliver}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listeners[l.at] = append(e.listeners[l.at], l)
	return l, nil
}

// Close implements engine.Listener.
func (l *subscriber) Close() error {
	l.engine.forget(l)
	l.mu.Lock()
	l.closed, l.pending = true, nil
	busy := l.busy
	l.mu.Unlock()
	if busy != nil {
		<-busy
	}
	return nil
}

func (e *Engine) forget(l *subscriber) {
	e.mu.Lock()
	defer e.mu.Unlock()
	rest := slices.DeleteFunc(e.listeners[l.at], func(other *subscriber) bool { return other == l })
	if len(rest) == 0 {
		delete(e.listeners, l.at)
		return
	}
	e.listeners[l.at] = rest
}

// mail is the set of listeners to which one operation has sent a wake-up.
type mail []*subscriber

// deliver runs after the engine's mutex is unlocked.
func (m *mail) deliver() {
	for _, l := range *m {
		l.drain()
	}
}

// post sends wake-ups to the waiters that an operation changed. The engine's mutex
// is held.
func (e *Engine) post(m *mail, prefix string, a queue.Answer) {
	for _, w := range translate.Wakeups(a) {
		e.send(m, prefix, w)
	}
}

// send adds a wake-up to the listeners of the holder ID's client. The engine's
// mutex is held, so wake-ups are in the order of operations.
func (e *Engine) send(m *mail, prefix string, w engine.Wakeup) {
	for _, l := range e.listeners[address{prefix, engine.ClientOf(w.ID)}] {
		l.mu.Lock()
		if !l.closed {
			l.pending = append(l.pending, w)
		}
		l.mu.Unlock()
		*m = append(*m, l)
	}
}

// drain delivers the pending wake-ups, unless another goroutine is delivering.
func (l *subscriber) drain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy != nil {
		return
	}
	done := make(chan struct{})
	l.busy = done
	defer func() {
		l.busy = nil
		close(done)
	}()
	for len(l.pending) > 0 {
		w := l.pending[0]
		l.pending = l.pending[1:]
		l.hand(w)
	}
}

// hand calls deliver without the mutex, and locks it again even if deliver
// panics.
func (l *subscriber) hand(w engine.Wakeup) {
	l.mu.Unlock()
	defer l.mu.Lock()
	l.deliver(w)
}

// Recalls implements engine.Recaller.
func (e *Engine) Recalls() bool { return true }
