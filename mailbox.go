package holdfast

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// listenPatience bounds one try to open the stream of wake-ups. Waiters poll
// meanwhile, so nothing but speed depends on it.
const listenPatience = 2 * time.Second

// listenWait is how long a waiter holds back its next poll for the stream.
const listenWait = 500 * time.Millisecond

// listenAge is how old a lease may become before the client listens for wake-ups,
// by which a break is told at once. Shorter ones are not worth a stream.
const listenAge = time.Second

// mailbox is the client's one stream of wake-ups, opened when it is first
// needed, and the register of who is to be told.
type mailbox struct {
	c *Client

	mu       sync.Mutex
	waiting  map[string]inbox // of attempts that wait, by holder ID
	held     map[string]*holding
	listener atomic.Pointer[engine.Listener] // nil unless live; changed under the mutex
	opening  *opening                        // the try under way
	denied   bool                            // the latest try was refused by the store
	closed   bool
	watch    *time.Timer // looks for old leases; nil: not armed
}

// opening is one try to open the stream.
type opening struct {
	ended chan struct{}
	err   error // that the store refuses; read it when ended is closed
}

// inbox holds the newest wake-up for one holder ID.
type inbox chan engine.Wakeup

// wake puts it in. A grant or a break is never displaced by a mere call to
// look again.
func (b inbox) wake(w engine.Wakeup) {
	for {
		select {
		case b <- w:
			return
		default:
		}
		if w.Kind == engine.Resync {
			return
		}
		select {
		case <-b:
		default:
		}
	}
}

func (m *mailbox) open(c *Client) {
	m.c = c
	m.waiting, m.held = make(map[string]inbox), make(map[string]*holding)
}

// expect makes wake-ups for an ID go to an attempt that waits.
func (m *mailbox) expect(id string, b inbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting[id] = b
}

// hold makes wake-ups for the ID of a holding go to it, and no longer to the
// attempt that it was. One that the attempt has not read is returned.
func (m *mailbox) hold(h *holding) (unread engine.Wakeup) {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case unread = <-m.waiting[h.id()]:
	default: // also without an attempt
	}
	delete(m.waiting, h.id())
	m.held[h.id()] = h
	if !m.live() && m.watch == nil && !m.denied && !m.closed {
		m.watch = time.AfterFunc(listenAge, m.lookForOld)
	}
	return unread
}

// lookForOld opens the stream once a lease is old enough. There is one timer,
// however many leases there are, and none while there is no lease or a stream.
func (m *mailbox) lookForOld() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watch = nil
	if m.closed || m.denied || m.live() || len(m.held) == 0 {
		return
	}
	oldest := time.Duration(0)
	for _, h := range m.held {
		oldest = max(oldest, h.age())
	}
	if oldest < listenAge {
		m.watch = time.AfterFunc(max(listenAge-oldest, listenAge/10), m.lookForOld)
		return
	}
	m.start()
}

func (m *mailbox) remove(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.waiting, id)
	delete(m.held, id)
}

// holdings lists what the client holds.
func (m *mailbox) holdings() []*holding {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.held))
}

// live tells whether wake-ups come in.
func (m *mailbox) live() bool { return m.listener.Load() != nil }

// listen opens the stream if it is not open, within ctx and a bound of its own.
// It returns true if the stream has been opened since the caller last looked,
// so that the caller must look again. An error is permanent; trouble that may
// pass is left to the next call.
func (m *mailbox) listen(ctx context.Context) (opened bool, err error) {
	m.mu.Lock()
	if m.live() || !m.start() {
		m.mu.Unlock()
		return false, nil
	}
	o := m.opening
	m.mu.Unlock()
	t := time.NewTimer(listenWait)
	defer t.Stop()
	select {
	case <-o.ended:
	case <-t.C:
		return false, nil
	case <-ctx.Done():
		return false, nil
	}
	return m.live(), o.err
}

// start makes sure that a try is under way, unless the client is closed. The try
// is the client's own: it outlives the caller that needed it first. The mutex is
// held.
func (m *mailbox) start() bool {
	if m.closed || m.opening == nil && !m.c.gate.join() {
		return false
	}
	if m.opening == nil {
		m.opening = &opening{ended: make(chan struct{})}
		go m.try(m.opening)
	}
	return true
}

func (m *mailbox) try(o *opening) {
	defer m.c.gate.leave()
	ctx, cancel := context.WithTimeout(m.c.tasks, listenPatience)
	defer cancel()
	l, err := m.c.engine.Listen(ctx, m.c.prefix, m.c.info.ID, m.deliver)
	m.mu.Lock()
	m.opening, m.denied = nil, errors.Is(err, ErrDenied)
	late := err == nil && m.closed
	if err == nil && !late {
		m.listener.Store(&l)
	}
	m.mu.Unlock()
	if late {
		_ = l.Close() // the client did not wait for this try
	}
	if errors.Is(err, ErrDenied) {
		o.err = err
	} else if err != nil {
		m.c.log.Warn("holdfast: wake-ups do not come in; waiters poll", "error", err)
	}
	close(o.ended)
}

// deliver hands a wake-up to whom it is for. To look again concerns only those who
// wait.
func (m *mailbox) deliver(w engine.Wakeup) {
	m.mu.Lock()
	if w.Kind != engine.Resync || w.ID != "" {
		h := m.held[w.ID]
		if b := m.waiting[w.ID]; b != nil && h == nil {
			b.wake(w) // under the mutex: the attempt may become a holding now
		}
		m.mu.Unlock()
		if h != nil {
			h.wake(w)
		}
		return
	}
	all := slices.Collect(maps.Values(m.waiting))
	m.mu.Unlock()
	for _, b := range all {
		b.wake(w)
	}
}

// close ends the stream. A try that is still under way ends its own.
func (m *mailbox) close() {
	m.mu.Lock()
	l := m.listener.Swap(nil)
	m.closed = true
	if m.watch != nil {
		m.watch.Stop()
	}
	m.mu.Unlock()
	if l != nil {
		_ = (*l).Close() // nothing is left that a failure could hurt
	}
}

// listenSoon opens the stream in the background, if it is not open. Where the
// store refuses it, waiters find out whether it still does.
func (m *mailbox) listenSoon() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.live() && !m.denied {
		m.start()
	}
}
