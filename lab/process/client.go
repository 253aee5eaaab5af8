package process

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lab/subject"
)

// client is a subject.Client whose work is done by a process.
type client struct{ p *Process }

// Acquire waits in the process.
func (c *client) Acquire(ctx context.Context, resource string) (subject.Hold, error) {
	return c.get(ctx, callAcquire, resource)
}

// Try makes one attempt, in the process.
func (c *client) Try(ctx context.Context, resource string) (subject.Hold, error) {
	return c.get(ctx, callTry, resource)
}

// Close closes the client; the process can make another.
func (c *client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*grace)
	defer cancel()
	r, err := c.p.call(ctx, order{Call: callClose})
	if err != nil {
		return err
	}
	return r.Err.receive()
}

// withinKey carries the hold under which an acquire re-enters.
type withinKey struct{}

func (c *client) get(ctx context.Context, call, resource string) (subject.Hold, error) {
	outer, _ := ctx.Value(withinKey{}).(uint64)
	r, err := c.p.call(ctx, order{Call: call, Resource: resource, Hold: outer})
	if err != nil {
		return nil, err
	}
	if err := r.Err.receive(); err != nil {
		return nil, err
	}
	h := &hold{p: c.p, id: r.ID, token: r.Token, until: r.Until}
	if r.ReportsLoss {
		h.lost = make(chan struct{})
	}
	c.p.mu.Lock()
	c.p.holds[r.ID] = h
	if c.p.early[r.ID] {
		h.lose()
	}
	c.p.mu.Unlock()
	return h, nil
}

// hold is a subject.Hold in a process.
type hold struct {
	p     *Process
	id    uint64
	token uint64
	lost  chan struct{} // nil: the lock does not report a loss
	once  sync.Once

	mu    sync.Mutex
	until time.Time // as last reported
}

func (h *hold) lose() {
	if h.lost != nil {
		h.once.Do(func() { close(h.lost) })
	}
}

// call makes a call of the hold and records the end of the window in the reply.
func (h *hold) call(ctx context.Context, call string) error {
	r, err := h.p.call(ctx, order{Call: call, Hold: h.id})
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !r.Until.IsZero() {
		h.until = r.Until
	}
	return r.Err.receive()
}

func (h *hold) Token() uint64 { return h.token }

// Until is the latest that the process reported: it may be stopped.
func (h *hold) Until() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.until
}

func (h *hold) Lost() <-chan struct{} {
	if h.lost == nil {
		return nil
	}
	return h.lost
}

// Err calls the process; it does not return while the process is stopped.
func (h *hold) Err() error { return h.call(context.Background(), callErr) }

func (h *hold) Within(ctx context.Context) context.Context {
	return context.WithValue(ctx, withinKey{}, h.id)
}

func (h *hold) Renew(ctx context.Context) error   { return h.call(ctx, callRenew) }
func (h *hold) Release(ctx context.Context) error { return h.call(ctx, callRelease) }
