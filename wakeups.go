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

// listenTimeout bounds one try to subscribe. Waiters poll meanwhile, so it affects only
// latency.
const listenTimeout = 2 * time.Second

// listenWait is how long a waiter delays its next poll for a subscription under way.
const listenWait = 500 * time.Millisecond

// listenAge is the age of a lease at which the client subscribes, so that a break arrives
// at once. Shorter leases are not worth a subscription.
const listenAge = time.Second

// listenPause is the pause after a try to subscribe that failed, if leases are held and nobody waits.
const listenPause = 10 * time.Second

// wakeups is the client's one subscription to wake-ups, opened when it is first needed, and
// the register of attempts and grants that wake-ups are for.
type wakeups struct {
	c *Client

	mu          sync.Mutex
	waiting     map[string]inbox // of attempts that wait, by holder ID
	held        map[string]*storeGrant
	listener    atomic.Pointer[engine.Listener] // nil unless subscribed; written under the mutex
	subscribing *subscribing                    // the try that is under way
	denied      bool                            // the store refused the latest try
	closed      bool
	watch       *time.Timer // fires when a lease may be of listenAge; nil: not armed
}

// subscribing is one try to subscribe.
type subscribing struct {
	ended chan struct{}
	err   error // ErrDenied or nil; valid once ended is closed
}

// inbox holds the newest wake-up for one holder ID.
type inbox chan engine.Wakeup

// wake stores a wake-up. A Resync or a recall never displaces another: either makes the attempt
// look again.
func (b inbox) wake(w engine.Wakeup) {
	for {
		select {
		case b <- w:
			return
		default:
		}
		if w.Kind == engine.Resync || w.Kind == engine.WakeWanted {
			return
		}
		select {
		case <-b:
		default:
		}
	}
}

func (m *wakeups) open(c *Client) {
	m.c = c
	m.waiting, m.held = make(map[string]inbox), make(map[string]*storeGrant)
}

// register directs wake-ups for an ID to an attempt that waits.
func (m *wakeups) register(id string, b inbox) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting[id] = b
}

// registerGrant directs wake-ups for the ID of a grant to it, and no longer to its attempt.
// It returns the wake-up that the attempt has not read, if any. It returns false, and does nothing, if the
// client has another grant with the ID.
func (m *wakeups) registerGrant(h *storeGrant) (unread engine.Wakeup, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held[h.id()] != nil {
		return unread, false
	}
	select {
	case unread = <-m.waiting[h.id()]:
	default: // none, or no attempt
	}
	delete(m.waiting, h.id())
	m.held[h.id()] = h
	if !m.live() && m.watch == nil && !m.denied && !m.closed {
		m.watch = time.AfterFunc(listenAge, m.lookForOld)
	}
	return unread, true
}

// lookForOld subscribes if a lease has reached listenAge. There is one timer for all
// leases, and none without leases or with a subscription.
func (m *wakeups) lookForOld() {
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

func (m *wakeups) remove(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.waiting, id)
	delete(m.held, id)
}

// grant returns the grant with an ID, or nil.
func (m *wakeups) grant(id string) *storeGrant {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.held[id]
}

// grants returns the grants of the client.
func (m *wakeups) grants() []*storeGrant {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.held))
}

// stats returns the number of grants, and the state of the subscription.
func (m *wakeups) stats() (grants int, s Subscription) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s = SubscriptionNone
	switch {
	case m.live():
		s = SubscriptionLive
	case m.subscribing != nil:
		s = SubscriptionOpening
	case m.denied:
		s = SubscriptionDenied
	}
	return len(m.held), s
}

// live reports whether the client is subscribed.
func (m *wakeups) live() bool { return m.listener.Load() != nil }

// listen subscribes if the client is not subscribed, within ctx and listenWait. It returns
// true if the subscription is new, so that the caller must send its request again. An
// error is permanent; one that may pass is left to the next call.
func (m *wakeups) listen(ctx context.Context) (opened bool, err error) {
	m.mu.Lock()
	if m.live() || !m.start() {
		m.mu.Unlock()
		return false, nil
	}
	o := m.subscribing
	m.mu.Unlock()
	select {
	case <-o.ended:
	case <-time.After(listenWait):
		return false, nil
	case <-ctx.Done():
		return false, nil
	}
	return m.live(), o.err
}

// start starts a try to subscribe, unless one is under way or the client is closed. The
// try outlives the caller that needed it first. The mutex is held.
func (m *wakeups) start() bool {
	if m.closed || m.subscribing == nil && !m.c.gate.JoinCleanup() {
		return false
	}
	if m.subscribing == nil {
		m.subscribing = &subscribing{ended: make(chan struct{})}
		go m.try(m.subscribing)
	}
	return true
}

func (m *wakeups) try(o *subscribing) {
	defer m.c.gate.Leave()
	ctx, cancel := context.WithTimeout(m.c.tasks, listenTimeout)
	defer cancel()
	l, err := m.c.engine.Listen(ctx, m.c.prefix, m.c.info.ID, m.deliver)
	m.mu.Lock()
	m.subscribing, m.denied = nil, errors.Is(err, ErrDenied)
	late := err == nil && m.closed
	if err == nil && !late {
		m.listener.Store(&l)
	}
	if err != nil && !m.denied && !m.closed && m.watch == nil && len(m.held) > 0 {
		m.watch = time.AfterFunc(listenPause, m.lookForOld) // a lease may hear of a break by nothing else
	}
	m.mu.Unlock()
	if late {
		_ = l.Close() // the client did not wait for this try
	}
	if errors.Is(err, ErrDenied) {
		o.err = err
	} else if err != nil {
		m.c.log.Warn("holdfast: cannot listen for wake-ups; waiters poll", "err", err)
	}
	close(o.ended)
}

// deliver passes a wake-up to the attempt or grant of its ID. A Resync without an ID is for
// all attempts that wait.
func (m *wakeups) deliver(w engine.Wakeup) {
	m.c.counts.wakeups.Add(1)
	m.mu.Lock()
	if w.Kind != engine.Resync || w.ID != "" {
		h := m.held[w.ID]
		if b := m.waiting[w.ID]; b != nil && h == nil {
			b.wake(w) // under the mutex: the attempt may become a grant now
		}
		m.mu.Unlock()
		if h != nil {
			h.wake(w)
		}
		return
	}
	all := slices.Collect(maps.Values(m.waiting))
	var recalled []*storeGrant
	if m.c.recalls.tried.Load() {
		for _, h := range m.held {
			if h.linger != nil || h.shared != nil {
				recalled = append(recalled, h)
			}
		}
	}
	m.mu.Unlock()
	for _, b := range all {
		b.wake(w)
	}
	for _, h := range recalled {
		h.wake(w)
	}
}

// close unsubscribes. A try that is still under way does so itself.
func (m *wakeups) close() {
	m.mu.Lock()
	l := m.listener.Swap(nil)
	m.closed = true
	if m.watch != nil {
		m.watch.Stop()
	}
	m.mu.Unlock()
	if l != nil {
		_ = (*l).Close() // an error has no effect
	}
}

// listenSoon subscribes in the background, unless the client is subscribed or the store
// refused the latest try: then waiters try again.
func (m *wakeups) listenSoon() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.live() && !m.denied {
		m.start()
	}
}
