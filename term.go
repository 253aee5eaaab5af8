package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/keepalive"
)

// term is a time that is over when the first of two clocks says so, as a trust window: the monotonic clock, and with it
// each timer, stands still while the machine is suspended. A nil term is never over.
type term struct {
	keep  *keepalive.Scheduler
	entry keepalive.Entry
	over  func()
}

var _ keepalive.Keeper = (*term)(nil)

// newTerm returns a term that begins now. It calls over in a goroutine when it is over, unless it is stopped or the client
// closed before.
func (c *Client) newTerm(d time.Duration, over func()) *term {
	t := &term{keep: c.keep, over: over}
	t.entry.TTL, t.entry.Keeper = d, t
	t.entry.Window.Start(c.keep.Now(), d, 0)
	c.keep.Add(&t.entry, keepalive.Never)
	return t
}

func (t *term) stop() {
	if t != nil {
		t.keep.Remove(&t.entry)
	}
}

func (t *term) passed() bool { return t != nil && t.entry.Window.Left(t.keep.Now()) <= 0 }

// deadline is when it is over, as it looks now.
func (t *term) deadline() time.Time { return t.keep.Closes(&t.entry.Window) }

// Renewal implements keepalive.Keeper. A term is not renewed.
func (t *term) Renewal() engine.Renewal { return engine.Renewal{} }

// Renewed implements keepalive.Keeper.
func (t *term) Renewed(time.Duration) {}

// Jeopardy implements keepalive.Keeper.
func (t *term) Jeopardy(error, time.Duration) {}

// Lost implements keepalive.Keeper.
func (t *term) Lost(*engine.NotHeldError, error) (free, report func()) {
	return func() { go t.over() }, nil
}

// sleepByClocks is like sleep, but is over when the first of two clocks says so.
func (c *Client) sleepByClocks(ctx context.Context, d time.Duration) {
	over := make(chan struct{})
	t := c.newTerm(d, func() { close(over) })
	defer t.stop()
	select {
	case <-over:
	case <-ctx.Done():
	case <-c.life.Done():
	}
}
