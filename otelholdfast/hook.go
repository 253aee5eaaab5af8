package otelholdfast

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
)

// scope is the name of the instrumentation.
const scope = "github.com/holdfast-go/holdfast/otelholdfast"

// NewHook returns a hook for [holdfast.WithHooks]. It returns an error if the
// meter provider refuses an instrument, or an option is nil.
//
// Metrics are recorded as events happen. A span holdfast.acquire is made when an
// acquire ends, from its beginning; with WithLeaseSpans a span holdfast.lease lasts
// from the grant to the end of the lease. The parent of both is the span in the ctx of the
// call. An acquire that waited for another holder, or was refused, links to the
// parent of that holder's lease, if it is known: see
// holdfast.AcquireEndEvent.HolderSpan. A re-entrant lease has no span, and is not counted, since it is the same
// lease.
func NewHook(opts ...Option) (holdfast.Hook, error) {
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	h := &hook{label: o.label, tracer: o.tracers.Tracer(scope), spans: o.leases}
	h.sets.kept = make(map[values]*set)
	h.areas = areas{open: make(map[areaKey]*area), rest: newArea(values{})}
	h.leases, h.early = make(map[heldKey]held), make(map[heldKey][]func(held))
	if err := h.instruments.open(o.meters.Meter(scope), &h.areas); err != nil {
		return nil, err
	}
	return h, nil
}

// hook has the methods of every event that it reports.
type hook struct {
	instruments instruments
	tracer      trace.Tracer
	spans       bool // of leases too
	label       func(string) string
	sets        sets
	areas       areas

	mu     sync.Mutex
	leases map[heldKey]held
	early  map[heldKey][]func(held) // what is to be done with leases that ended before AcquireEnd was called
}

// heldKey identifies a lease. Those that were granted without the store have the token 0.
type heldKey struct {
	resource string
	token    uint64
}

// held is what is known of a lease until it ends. Of several leases with one key, which
// were granted without the store, it is the latest.
type held struct {
	area  *area
	since time.Time
	span  trace.Span
	n     int
}

// area returns the area of a resource.
func (h *hook) area(resource, kind string) *area {
	key := areaKey{kind: kind}
	if h.label != nil {
		key.resource = h.label(resource)
	}
	return h.areas.of(key)
}

// AcquireStart implements holdfast.AcquireStartHook.
func (h *hook) AcquireStart(_ context.Context, e holdfast.AcquireStartEvent) {
	h.area(e.Resource, e.Kind).pending.add(1)
}

// AcquireEnd implements holdfast.AcquireEndHook.
func (h *hook) AcquireEnd(ctx context.Context, e holdfast.AcquireEndEvent) {
	a := h.area(e.Resource, e.Kind)
	a.pending.add(-1)
	now := time.Now()
	if e.Outcome == holdfast.AcquireGranted {
		s := a.grant(&h.sets, e.Source)
		h.instruments.acquire.Record(ctx, e.Waited.Seconds(), s.record...)
		sampled := h.traceAcquire(ctx, e, s, "", now)
		if e.Source != holdfast.SourceContext {
			h.begin(ctx, e, a, sampled, now)
		}
		return
	}
	v, trouble := a.values, ""
	v.outcome = e.Outcome.String()
	switch e.Outcome {
	case holdfast.AcquireBroken:
		v.outcome, trouble = "error", "broken"
	case holdfast.AcquireFailed:
		trouble = errorType(e.Err)
	}
	v.err = trouble
	s := h.sets.of(v)
	h.instruments.acquire.Record(ctx, e.Waited.Seconds(), s.record...)
	h.traceAcquire(ctx, e, s, trouble, now)
}

// traceAcquire makes the span of an acquire and reports whether it is recorded.
func (h *hook) traceAcquire(ctx context.Context, e holdfast.AcquireEndEvent, s *set, trouble string, now time.Time) bool {
	opts := []trace.SpanStartOption{trace.WithTimestamp(now.Add(-e.Waited))}
	if e.HolderSpan != (holdfast.SpanRef{}) {
		opts = append(opts, linkTo(e.HolderSpan))
	}
	_, span := h.tracer.Start(ctx, "holdfast.acquire", opts...)
	if !span.IsRecording() {
		return false
	}
	span.SetAttributes(s.list...)
	if trouble != "" {
		span.SetStatus(codes.Error, trouble) // a few values; the text of the error may have names
	}
	span.End()
	return true
}

// begin counts a lease, and begins its span if leases have one and that of its acquire is recorded.
func (h *hook) begin(ctx context.Context, e holdfast.AcquireEndEvent, a *area, sampled bool, now time.Time) {
	var span trace.Span
	if sampled && h.spans {
		_, span = h.tracer.Start(ctx, "holdfast.lease") // its attributes are set once, at its end
	}
	key := heldKey{e.Resource, e.Token}
	h.mu.Lock()
	if ends := h.early[key]; len(ends) > 0 {
		if h.early[key] = ends[1:]; len(ends) == 1 {
			delete(h.early, key)
		}
		h.mu.Unlock()
		ends[0](held{area: a, span: span})
		return
	}
	was := h.leases[key]
	h.leases[key] = held{a, now, span, was.n + 1}
	h.mu.Unlock()
	if was.span != nil {
		was.span.SetAttributes(was.area.values.attributes()...)
		was.span.End()
	}
	a.leases.add(1)
}

// end removes a lease. It returns false if it did not begin under this hook.
func (h *hook) end(resource string, token uint64) (held, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := heldKey{resource, token}
	l, found := h.leases[key]
	if l.n > 1 {
		h.leases[key] = held{l.area, l.since, l.span, l.n - 1}
	} else {
		delete(h.leases, key)
	}
	return l, found
}

// Release implements holdfast.ReleaseHook.
func (h *hook) Release(e holdfast.ReleaseEvent) {
	l, found := h.end(e.Resource, e.Token)
	if !found {
		if e.Token == 0 { // otherwise it was lost before
			h.endEarly(heldKey{e.Resource, 0}, func(l held) { h.released(l, e) })
		}
		return
	}
	l.area.leases.add(-1)
	h.released(l, e)
}

// released records a lease that was released, and ends its span.
func (h *hook) released(l held, e holdfast.ReleaseEvent) {
	h.instruments.hold.Record(context.Background(), e.Held.Seconds(), l.area.release(&h.sets).record...)
	if l.span == nil {
		return
	}
	trouble := errorType(e.Err)
	l.endSpan(l.area.end(&h.sets, e.HandOff, trouble), trouble)
}

// Lost implements holdfast.LostHook.
func (h *hook) Lost(e *holdfast.LostError) {
	l, found := h.end(e.Resource, e.Token)
	if !found {
		h.lostEarly(e)
		return
	}
	l.area.leases.add(-1)
	lost, hold := l.area.values, l.area.values
	lost.cause, hold.outcome = e.Cause.String(), "lost"
	h.instruments.losses.Add(context.Background(), 1, h.sets.of(lost).add...)
	h.instruments.hold.Record(context.Background(), time.Since(l.since).Seconds(), h.sets.of(hold).record...)
	h.endLost(l, lost.cause)
}

// endLost ends the span of a lease that was lost.
func (h *hook) endLost(l held, cause string) {
	v := l.area.values
	v.outcome, v.cause, v.err = "lost", cause, cause
	l.endSpan(h.sets.of(v), cause)
}

// lostEarly counts the loss of a lease whose AcquireEnd was not called yet.
func (h *hook) lostEarly(e *holdfast.LostError) {
	v := h.area(e.Resource, "").values
	v.cause = e.Cause.String()
	h.instruments.losses.Add(context.Background(), 1, h.sets.of(v).add...)
	h.endEarly(heldKey{e.Resource, e.Token}, func(l held) { h.endLost(l, v.cause) })
}

// maxEarly is how many keys of leases that ended early are remembered.
const maxEarly = 1000

// endEarly remembers what is to be done with the next lease that begins with a key.
func (h *hook) endEarly(key heldKey, end func(held)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.early) >= maxEarly {
		clear(h.early)
	}
	h.early[key] = append(h.early[key], end)
}

// endSpan ends the span of a lease, unless it is that of a later lease.
func (l *held) endSpan(s *set, trouble string) {
	if l.n > 1 || l.span == nil {
		return
	}
	l.span.SetAttributes(s.list...)
	if trouble != "" {
		l.span.SetStatus(codes.Error, trouble)
	}
	l.span.End()
}

// Renew implements holdfast.RenewHook.
func (h *hook) Renew(e holdfast.RenewEvent) {
	v := h.area(e.Resource, "").values
	v.err = errorType(e.Err)
	in := h.sets.of(v).record
	h.instruments.renew.Record(context.Background(), e.Took.Seconds(), in...)
	h.instruments.left.Record(context.Background(), e.Left.Seconds(), in...)
}

// JeopardyStart implements holdfast.JeopardyStartHook.
func (h *hook) JeopardyStart(e holdfast.JeopardyStartEvent) {
	h.area(e.Resource, e.Kind).jeopardy.add(1)
}

// JeopardyEnd implements holdfast.JeopardyEndHook.
func (h *hook) JeopardyEnd(e holdfast.JeopardyEndEvent) {
	h.area(e.Resource, e.Kind).jeopardy.add(-1)
}

// Break implements holdfast.BreakHook.
func (h *hook) Break(e holdfast.BreakEvent) {
	h.instruments.breaks.Add(context.Background(), 1, h.sets.of(h.area(e.Resource, e.Kind).values).add...)
}

// Recall implements holdfast.RecallHook.
func (h *hook) Recall(e holdfast.RecallEvent) {
	h.instruments.recalls.Add(context.Background(), 1, h.sets.of(h.area(e.Resource, e.Kind).values).add...)
}

// FallbackStart implements holdfast.FallbackStartHook.
func (h *hook) FallbackStart(holdfast.FallbackStartEvent) {
	h.instruments.fallback.Add(context.Background(), 1)
}

// FallbackEnd implements holdfast.FallbackEndHook.
func (h *hook) FallbackEnd(holdfast.FallbackEndEvent) {
	h.instruments.fallback.Add(context.Background(), -1)
}

// CleanupFailed implements holdfast.CleanupFailedHook.
func (h *hook) CleanupFailed(e holdfast.CleanupFailedEvent) {
	v := h.area(e.Resource, "").values
	v.err = errorType(e.Err)
	h.instruments.cleanups.Add(context.Background(), 1, h.sets.of(v).add...)
}

// errorType returns the value of error.type, one of few; "" without an error.
func errorType(err error) string {
	if err == nil {
		return ""
	}
	for _, k := range [...]struct {
		is   error
		name string
	}{
		{holdfast.ErrLost, "lost"}, {holdfast.ErrUnavailable, "unavailable"}, {holdfast.ErrDenied, "denied"},
		{holdfast.ErrMismatch, "mismatch"}, {holdfast.ErrTooHeavy, "too_heavy"}, {holdfast.ErrDeadlock, "deadlock"},
		{holdfast.ErrClosed, "closed"}, {holdfast.ErrInvalid, "invalid"}, {context.Canceled, "canceled"},
		{context.DeadlineExceeded, "timeout"}, {holdfast.ErrNotAcquired, "not_acquired"},
	} {
		if errors.Is(err, k.is) {
			return k.name
		}
	}
	return "_OTHER" // as the semantic conventions have it
}
