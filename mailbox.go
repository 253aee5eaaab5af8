package holdfast

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// listenPatience bounds one try to open the stream of wake-ups. Waiters poll
// meanwhile, so nothing but speed depends on it.
const listenPatience = 2 * time.Second

// listenWait is how long a waiter holds back its next poll for the stream.
const listenWait = 500 * time.Millisecond

// party is whoever a wake-up can be for: a waiting attempt or a holding.
type party interface{ wake(w engine.Wakeup) }

// mailbox is the client's one stream of wake-ups, opened when it is first
// needed, and the register of who is to be told.
type mailbox struct {
	c *Client

	mu       sync.Mutex
	parties  map[string]party // by holder ID
	listener engine.Listener  // nil until live
	opening  *opening         // the try under way
	denied   bool             // the latest try was refused by the store
	closed   bool
}

// opening is one try to open the stream.
type opening struct {
	ended chan struct{}
	err   error // that the store refuses; read it when ended is closed
}

// inbox holds the newest wake-up for one holder ID.
type inbox chan engine.Wakeup

// wake implements party. A grant or a break is never displaced by a mere call to
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
	m.parties = make(map[string]party)
}

// enrol makes wake-ups for an ID go to p, in place of anybody before.
func (m *mailbox) enrol(id string, p party) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.parties[id] = p
}

func (m *mailbox) remove(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.parties, id)
}

// holdings lists what the client holds.
func (m *mailbox) holdings() []*holding {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*holding
	for _, p := range m.parties {
		if h, ok := p.(*holding); ok {
			all = append(all, h)
		}
	}
	return all
}

// live tells whether wake-ups come in.
func (m *mailbox) live() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.listener != nil
}

// listen opens the stream if it is not open, within ctx and a bound of its own.
// It returns true if the stream has been opened since the caller last looked,
// so that the caller must look again. An error is permanent; trouble that may
// pass is left to the next call.
func (m *mailbox) listen(ctx context.Context) (opened bool, err error) {
	m.mu.Lock()
	if m.listener != nil || !m.start() {
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
		m.listener = l
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

// deliver hands a wake-up to whom it is for.
func (m *mailbox) deliver(w engine.Wakeup) {
	m.mu.Lock()
	if w.Kind != engine.Resync || w.ID != "" {
		p := m.parties[w.ID]
		m.mu.Unlock()
		if p != nil {
			p.wake(w)
		}
		return
	}
	all := make([]party, 0, len(m.parties))
	for _, p := range m.parties {
		all = append(all, p)
	}
	m.mu.Unlock()
	for _, p := range all {
		p.wake(w)
	}
}

// close ends the stream. A try that is still under way ends its own.
func (m *mailbox) close() {
	m.mu.Lock()
	l := m.listener
	m.listener, m.closed = nil, true
	m.mu.Unlock()
	if l != nil {
		_ = l.Close() // nothing is left that a failure could hurt
	}
}

// listenSoon opens the stream in the background, if it is not open. Where the
// store refuses it, waiters find out whether it still does.
func (m *mailbox) listenSoon() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listener == nil && !m.denied {
		m.start()
	}
}
