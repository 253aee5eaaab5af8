package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// tracer is a hook for which a ctx carries a span, and that keeps the ends of acquires.
type tracer struct{ recorder }

type spanKey struct{}

func (h *tracer) Trace(ctx context.Context) holdfast.SpanRef {
	s, _ := ctx.Value(spanKey{}).(holdfast.SpanRef)
	return s
}

// last returns the span of the holder that the latest acquire waited for.
func (h *tracer) last() holdfast.SpanRef {
	ends := h.ends()
	return ends[len(ends)-1].HolderSpan
}

func inSpan(s holdfast.SpanRef) context.Context {
	return context.WithValue(context.Background(), spanKey{}, s)
}

var (
	spanA = holdfast.SpanRef{TraceID: [16]byte{1, 15: 0xff}, SpanID: [8]byte{2, 7: 0xfe}}
	spanB = holdfast.SpanRef{TraceID: [16]byte{3}, SpanID: [8]byte{4}}
)

// peekCount counts the peeks at an engine.
type peekCount struct {
	engine.Engine
	n atomic.Int32
}

func (e *peekCount) Peek(ctx context.Context, res engine.Resource) (engine.Brief, error) {
	e.n.Add(1)
	return e.Engine.Peek(ctx, res)
}

// An acquire that is refused gets the span of the holder, of any kind, also without a span of
// its own.
func TestHolderSpanOfATry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, h := &peekCount{Engine: memory.New()}, &tracer{}
		a, b := newClient(t, e, holdfast.WithHooks(h)), newClient(t, e, holdfast.WithHooks(h))
		defer a.Close()
		defer b.Close()
		of := func(c *holdfast.Client, reason string) map[string]lockFunc {
			why := holdfast.WithReason(reason)
			return map[string]lockFunc{
				"mutex": c.Mutex("m", why).TryLock, "writer": c.RWMutex("w", why).TryLock,
				"semaphore": func(ctx context.Context) (*holdfast.Lease, error) {
					return c.Semaphore("s", 2, why).TryAcquire(ctx, 2)
				},
			}
		}
		const reason = "the reason"
		others := of(b, "")
		for kind, try := range of(a, reason) {
			l := mustLock(t, try, inSpan(spanA))
			for _, own := range []holdfast.SpanRef{spanB, {}} {
				_, err := others[kind](inSpan(own))
				if held, ok := errors.AsType[*holdfast.HeldError](err); !ok || held.Reason != reason || h.last() != spanA {
					t.Errorf("%s: %v, and the holder's span is %v, want %v", kind, err, h.last(), spanA)
				}
			}
			mustRelease(t, l)
			mustRelease(t, mustLock(t, others[kind], inSpan(spanB)))
			if got := h.last(); got != (holdfast.SpanRef{}) {
				t.Errorf("%s, free: the holder's span is %v", kind, got)
			}
		}
		if n := e.n.Load(); n != 0 {
			t.Errorf("%d peeks", n)
		}
	})
}

// An acquire that has waited for more than a second has looked for the holder once, in the
// store's queue and in that of its process.
func TestHolderSpanOfAWait(t *testing.T) {
	for _, k := range []struct {
		name  string
		local bool
		own   holdfast.SpanRef
		waits time.Duration
		ends  bool // by its ctx
		want  holdfast.SpanRef
		peeks int32
	}{
		{"granted", false, spanB, 3 * time.Second, false, spanA, 1},
		{"given up", false, spanB, 3 * time.Second, true, spanA, 1},
		{"behind its own process", true, spanB, 3 * time.Second, false, spanA, 1},
		{"short", false, spanB, 900 * time.Millisecond, false, holdfast.SpanRef{}, 0},
		{"without a span", false, holdfast.SpanRef{}, 3 * time.Second, false, holdfast.SpanRef{}, 0},
	} {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e, h := &peekCount{Engine: memory.New()}, &tracer{}
				a, b := newClient(t, e, holdfast.WithHooks(h)), newClient(t, e, holdfast.WithHooks(h))
				defer a.Close()
				defer b.Close()
				if k.local {
					b = a
				}
				l := mustLock(t, a.Mutex("x", holdfast.WithReason("the reason")).Lock, inSpan(spanA))
				ctx, cancel := context.WithCancel(inSpan(k.own))
				defer cancel()
				time.AfterFunc(k.waits, func() {
					if k.ends {
						cancel()
					} else {
						mustRelease(t, l)
					}
				})
				got, err := b.Mutex("x").Lock(ctx)
				if k.ends != (err != nil) || h.last() != k.want || e.n.Load() != k.peeks {
					t.Errorf("%v, the holder's span is %v after %d peeks, want %v after %d", err, h.last(), e.n.Load(), k.want, k.peeks)
				}
				if got == nil {
					got = l
				}
				mustRelease(t, got)
			})
		})
	}
}

// A look that the store does not answer delays neither the grant nor its release.
func TestLookAtHolderHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, h := &deafPeek{Engine: memory.New()}, &tracer{}
		c, other := newClient(t, e, holdfast.WithHooks(h)), newClient(t, e)
		defer other.Close()
		l := mustLock(t, other.Mutex("x").Lock, context.Background())
		time.AfterFunc(5*time.Second, func() { mustRelease(t, l) })
		begin := time.Now()
		mustRelease(t, mustLock(t, c.Mutex("x").Lock, inSpan(spanB)))
		if took := time.Since(begin); took != 5*time.Second || !e.hung.Load() {
			t.Errorf("granted after %v, want 5s; a peek hung: %v", took, e.hung.Load())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// deafPeek answers no Peek.
type deafPeek struct {
	engine.Engine
	hung atomic.Bool
}

func (e *deafPeek) Peek(ctx context.Context, _ engine.Resource) (engine.Brief, error) {
	e.hung.Store(true)
	<-ctx.Done()
	return engine.Brief{}, ctx.Err()
}

// What operators see has the reason alone, and so has the leader's value.
func TestSpanIsNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const reason = "the reason"
		ctx := inSpan(spanA)
		c := newClient(t, memory.New(), holdfast.WithHooks(&tracer{}), holdfast.WithHistory(0))
		defer c.Close()
		var shown strings.Builder
		see := func(what string, err error, texts ...string) {
			t.Helper()
			if err != nil || len(texts) == 0 {
				t.Fatalf("%s: %d texts, %v", what, len(texts), err)
			}
			for _, text := range texts {
				fmt.Fprintf(&shown, "%s: %q\n", what, text)
			}
		}
		x := c.Mutex("x", holdfast.WithReason(reason), holdfast.WithoutTenure())
		l := mustLock(t, x.Lock, ctx)
		waited := make(chan *holdfast.Lease)
		go func() { waited <- mustLock(t, x.Lock, ctx) }()
		synctest.Wait()
		s, err := c.Snapshot(ctx, "x")
		see("holder", err, s.Holders[0].Reason)
		see("waiter", err, s.Waiters[0].Reason)
		for s, err := range c.List(ctx, "x") {
			see("listed", err, s.Holders[0].Reason, s.Waiters[0].Reason)
		}
		_, err = x.TryLock(ctx)
		held, ok := errors.AsType[*holdfast.HeldError](err)
		if !ok {
			t.Fatal(err)
		}
		see("refused", nil, held.Reason, held.Error())
		mustRelease(t, l)
		mustRelease(t, <-waited)
		term, err := c.Election("leader").Campaign(ctx, "10.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		leader, err := c.Election("leader").Leader(ctx)
		see("leader", err, leader.Value)
		mustRelease(t, term)
		_, err = c.Once(ctx, "once", time.Hour, func(context.Context) error { return nil })
		see("once", err, reason)
		for s, err := range c.Marks(ctx, "*") {
			see("marked", err, s.MarkedBy.Reason)
		}
		time.Sleep(time.Minute)
		for e, err := range c.History(ctx, holdfast.HistoryQuery{}) {
			see("history", err, fmt.Sprintf("%+v", e))
		}
		for _, want := range []string{"holder", "waiter", "listed", "refused"} {
			if !strings.Contains(shown.String(), want+`: "`+reason+`"`) {
				t.Errorf("%s: no %q", want, reason)
			}
		}
		for _, want := range []string{`leader: "10.0.0.1:80"`, `marked: ""`, `for \"the reason\", TTL`, "history: "} {
			if !strings.Contains(shown.String(), want) {
				t.Errorf("no %s", want)
			}
		}
		if strings.ContainsAny(shown.String(), "\x1f") || strings.Contains(shown.String(), `\x1f`) || t.Failed() {
			t.Errorf("shown:\n%s", shown.String())
		}
	})
}

// A text that looks like a reason with a span is shown as it was given, with and without a span.
func TestTextThatLooksLikeASpan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, text := range []string{
			"host\x1f0123456789abcdef0123456789abcdef", "\x1f" + strings.Repeat("A", 32), "a\x1fb", "",
		} {
			for _, own := range []holdfast.SpanRef{spanA, {}} {
				c := newClient(t, memory.New(), holdfast.WithHooks(&tracer{}))
				term, err := c.Election("leader").Campaign(inSpan(own), text)
				if err != nil {
					t.Fatal(err)
				}
				leader, err := c.Election("leader").Leader(t.Context())
				if err != nil || leader.Value != text {
					t.Errorf("%q, %v; want %q", leader.Value, err, text)
				}
				mustRelease(t, term)
				_ = c.Close()
			}
		}
	})
}
