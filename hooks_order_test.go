package holdfast

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine/memory"
)

// eventOrder records the order of events.
type eventOrder struct{ all []string }

func (o *eventOrder) FallbackStart(FallbackStartEvent) { o.all = append(o.all, "fallback start") }
func (o *eventOrder) FallbackEnd(FallbackEndEvent)     { o.all = append(o.all, "fallback end") }
func (o *eventOrder) JeopardyStart(JeopardyStartEvent) { o.all = append(o.all, "jeopardy start") }
func (o *eventOrder) JeopardyEnd(JeopardyEndEvent)     { o.all = append(o.all, "jeopardy end") }

// onLog calls a function for each record.
type onLog struct {
	slog.Handler
	call func()
}

func (onLog) Enabled(context.Context, slog.Level) bool { return true }

func (l onLog) Handle(context.Context, slog.Record) error {
	l.call()
	return nil
}

// The store answers while the start of a fallback is being reported.
func TestFallbackEndsAfterItsStart(t *testing.T) {
	var c *Client
	c, o := newOrderClient(t, WithLogger(slog.New(onLog{slog.DiscardHandler, func() { c.breaker.answered() }})))
	c.breaker.unanswered(time.Now().Add(-2*FallbackTimeout), c.resource("x"), ErrUnavailable)
	_ = c.Close()
	o.want(t, "fallback start", "fallback end")
}

// Close ends a fallback.
func TestFallbackEndsWithTheClient(t *testing.T) {
	c, o := newOrderClient(t)
	c.breaker.unanswered(time.Now().Add(-2*FallbackTimeout), c.resource("x"), ErrUnavailable)
	_ = c.Close()
	o.want(t, "fallback start", "fallback end")
}

// The jeopardy of a lease ends when the caller to whom it is handed off has left.
func TestJeopardyEndsWithAHandOffToNobody(t *testing.T) {
	c, o := newOrderClient(t)
	l, err := c.Mutex("x").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h := l.grant.(*storeGrant)
	h.Jeopardy(ErrUnavailable, 0)
	h.startJeopardy(h.entry.TTL/3, ErrUnavailable)
	h.remove(l)
	c.handOff(nil, localTurn{grant: h})
	_ = c.Close()
	o.want(t, "jeopardy start", "jeopardy end")
}

func newOrderClient(t *testing.T, opts ...Option) (*Client, *eventOrder) {
	t.Helper()
	o := new(eventOrder)
	c, err := New(memory.New(), append(opts, WithHooks(o))...)
	if err != nil {
		t.Fatal(err)
	}
	return c, o
}

func (o *eventOrder) want(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(o.all, want) {
		t.Errorf("got %q, want %q", o.all, want)
	}
}

// slowRelease is a hook that takes its time.
type slowRelease struct{ done bool }

func (h *slowRelease) Release(ReleaseEvent) {
	<-time.After(time.Second)
	h.done = true
}

// Close waits for the hook of a lease that was granted without the store.
func TestCloseWaitsForTheReleaseOfAFallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := new(slowRelease)
		c, err := New(memory.New(), WithHooks(h))
		if err != nil {
			t.Fatal(err)
		}
		c.breaker.unanswered(time.Now().Add(-2*FallbackTimeout), c.resource("x"), ErrUnavailable)
		if l, err := c.Mutex("x", WithFallback(FailOpen)).Lock(t.Context()); err != nil || l.Fallback() != FailOpen {
			t.Fatal(l, err)
		}
		_ = c.Close()
		if !h.done {
			t.Error("Close returned before the hook")
		}
	})
}
