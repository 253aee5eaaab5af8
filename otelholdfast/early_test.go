package otelholdfast_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
)

// slowHook holds up the hooks behind it until a lease has ended.
type slowHook struct{ ended <-chan struct{} }

func (h slowHook) AcquireEnd(context.Context, holdfast.AcquireEndEvent) { <-h.ended }

// endHook closes a channel when all hooks before it have the end of a lease.
type endHook struct{ ended chan struct{} }

func (h endHook) Release(holdfast.ReleaseEvent) { close(h.ended) }

func (h endHook) Lost(*holdfast.LostError) { close(h.ended) }

// A lease that is lost before its grant is reported is counted as lost, and not as held. Its span
// ends as that of a lease that was lost.
func TestLostBeforeItsGrantIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTelemetry(t)
		ended := make(chan struct{})
		c, err := holdfast.New(memory.New(), holdfast.WithHooks(slowHook{ended}, m.hook, endHook{ended}))
		if err != nil {
			t.Fatal(err)
		}
		_ = lock(t, t.Context(), c.Mutex("x", holdfast.WithTTL(holdfast.MinTTL), holdfast.WithoutRenewal())).Release(t.Context())
		_ = c.Close()
		if got := strings.Join(m.points(t), "\n"); !strings.Contains(got, "holdfast.lease.losses") {
			t.Errorf("after Close:\n%s", got)
		}
		m.nothingLeft(t)
		lease := spans(m, "holdfast.lease")
		if len(lease) != 1 || lease[0].Status().Description != "expired" ||
			!slices.Contains(lease[0].Attributes(), attribute.String("holdfast.outcome", "lost")) {
			t.Errorf("spans of the lease: %v", lease)
		}
	})
}

// A lease that was granted without the store ends as soon as Close begins, which may be before its
// grant is reported.
func TestClosedBeforeItsGrantIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTelemetry(t)
		ended := make(chan struct{})
		c, err := holdfast.New(unavailable(), holdfast.WithHooks(closingHook{}, slowHook{ended}, m.hook, endHook{ended}))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Mutex("x", holdfast.WithFallback(holdfast.FailOpen)).TryLock(context.WithValue(t.Context(), closingHook{}, c))
		_ = c.Close() // returns when the other call does
		m.nothingLeft(t)
		if lease := spans(m, "holdfast.lease"); len(lease) != 1 || lease[0].Status().Code != codes.Unset {
			t.Errorf("spans of the lease: %v", lease)
		}
	})
}

// closingHook closes the client of an acquire when that ends.
type closingHook struct{}

func (closingHook) AcquireEnd(ctx context.Context, _ holdfast.AcquireEndEvent) {
	go func() { _ = ctx.Value(closingHook{}).(*holdfast.Client).Close() }()
}

// unavailable returns a store that cannot be reached.
func unavailable() *primitivetest.Net {
	store := primitivetest.NewNet(memory.New())
	store.All(primitivetest.Down)
	return store
}

// nothingLeft fails the test if a span has not ended, or something is counted as present.
func (m *telemetry) nothingLeft(t testing.TB) {
	t.Helper()
	if n := len(m.spans.Started()) - len(m.spans.Ended()); n != 0 {
		t.Errorf("%d spans have not ended", n)
	}
	for _, p := range m.points(t) {
		for _, level := range []string{"holdfast.lease.count", "holdfast.acquire.pending", "holdfast.lease.jeopardy", "holdfast.fallback.active"} {
			if strings.HasPrefix(p, level) && !strings.HasSuffix(p, " 0") {
				t.Errorf("left: %s", p)
			}
		}
	}
}

// Whatever a client holds or waits for when it is closed, no span is left, and nothing counts as present.
func TestNothingIsLeftAtClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newTelemetry(t)
		c, gone := m.client(t, memory.New()), m.client(t, unavailable())
		ctx := t.Context()
		take := func(l *holdfast.Lease, err error) *holdfast.Lease {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		re := c.Mutex("re-entrant", holdfast.WithReentrancy())
		take(re.Lock(take(re.Lock(ctx)).Context()))
		take(c.Mutex("not renewed", holdfast.WithoutRenewal()).Lock(ctx))
		take(c.RWMutex("readers").RLock(ctx))
		take(c.RWMutex("readers").RLock(ctx))
		take(c.Semaphore("semaphore", 2).Acquire(ctx, 1))
		take(c.Semaphore("semaphore", 2).Acquire(ctx, 1))
		take(c.Election("election").Campaign(ctx, ""))
		take(c.Multi([]string{"a", "b"}).Lock(ctx))
		_ = take(c.Mutex("lingers", holdfast.WithLinger(time.Second)).Lock(ctx)).Release(ctx)
		ticket, err := take(c.Mutex("adopted").Lock(ctx)).Detach(ctx)
		if err != nil {
			t.Error(err)
		}
		take(c.Adopt(ctx, ticket))
		for _, way := range []holdfast.Fallback{holdfast.FailOpen, holdfast.LocalOnly} {
			take(gone.Mutex(way.String(), holdfast.WithFallback(way)).Lock(ctx))
		}
		take(gone.Mutex("twice", holdfast.WithFallback(holdfast.FailOpen)).Lock(ctx))
		take(gone.Mutex("twice", holdfast.WithFallback(holdfast.FailOpen)).Lock(ctx))
		var calls sync.WaitGroup
		calls.Go(func() { _, _ = c.Mutex("re-entrant").Lock(ctx) })
		calls.Go(func() { _, _ = gone.Mutex("waits").Lock(ctx) })
		calls.Go(func() {
			_, _ = c.Job("job", holdfast.AtLeast(time.Hour)).Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return nil })
		})
		synctest.Wait()
		_ = c.Close()
		_ = gone.Close()
		calls.Wait()
		if n := len(spans(m, "holdfast.lease")); n != 17 {
			t.Errorf("%d spans of leases, want 17", n)
		}
		m.nothingLeft(t)
	})
}
