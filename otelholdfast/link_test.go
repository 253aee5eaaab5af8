package otelholdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// An acquire that was refused, or waited, links to the span in which the holder, a client of
// another process, called: the parent of its lease.
func TestLinksToTheHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, holder, other := memory.New(), newTelemetry(t), newTelemetry(t)
		x, y := holder.client(t, e).Mutex("stock:42"), other.client(t, e).Mutex("stock:42")
		ctx, parent := holder.tracer.Tracer("test").Start(context.Background(), "holder")
		l := lock(t, ctx, x)
		own, caller := other.tracer.Tracer("test").Start(context.Background(), "other")
		if _, err := y.TryLock(own); !errors.Is(err, holdfast.ErrNotAcquired) {
			t.Error(err)
		}
		time.AfterFunc(3*time.Second, func() { _ = l.Release(ctx) })
		_ = lock(t, own, y).Release(own)
		_ = lock(t, own, y).Release(own) // did not wait
		caller.End()
		synctest.Wait() // until the holder has reported its release
		lease := spans(holder, "holdfast.lease")[0]
		var linked []int
		for _, s := range spans(other, "holdfast.acquire") {
			linked = append(linked, len(s.Links()))
			for _, link := range s.Links() {
				if got, want := link.SpanContext, lease.Parent(); got.TraceID() != want.TraceID() || got.SpanID() != want.SpanID() ||
					want.SpanID() != parent.SpanContext().SpanID() || !got.IsRemote() || !got.IsSampled() {
					t.Errorf("a link to %v, want the parent of the lease, %v", got, want)
				}
			}
		}
		if len(linked) != 3 || linked[0] != 1 || linked[1] != 1 || linked[2] != 0 {
			t.Errorf("a try, a wait and a grant at once have %v links, want 1, 1 and 0", linked)
		}
	})
}

// spans returns the spans of a name that have ended, in that order.
func spans(m *telemetry, name string) (all []trace.ReadOnlySpan) {
	for _, s := range m.spans.Ended() {
		if s.Name() == name {
			all = append(all, s)
		}
	}
	return all
}

// A span that is not sampled, and none, are not stored.
func TestTraceOfNoSpan(t *testing.T) {
	h := newTelemetry(t).hook.(holdfast.TraceHook)
	dropped := api.ContextWithSpanContext(t.Context(), api.NewSpanContext(api.SpanContextConfig{TraceID: api.TraceID{1}, SpanID: api.SpanID{1}}))
	for _, ctx := range []context.Context{t.Context(), dropped} {
		if got := h.Trace(ctx); got != (holdfast.SpanRef{}) {
			t.Errorf("got %v, want none", got)
		}
	}
}
