package otelholdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/otelholdfast"
)

// telemetry is a hook whose metrics and spans a test can read.
type telemetry struct {
	hook   holdfast.Hook
	reader *metric.ManualReader
	meters *metric.MeterProvider
	spans  *tracetest.SpanRecorder
	tracer *trace.TracerProvider
}

func newTelemetry(t testing.TB, opts ...otelholdfast.Option) *telemetry {
	t.Helper()
	m := &telemetry{reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	m.tracer = trace.NewTracerProvider(trace.WithSpanProcessor(m.spans))
	m.meters = metric.NewMeterProvider(metric.WithReader(m.reader))
	opts = append([]otelholdfast.Option{
		otelholdfast.WithMeterProvider(m.meters),
		otelholdfast.WithTracerProvider(m.tracer),
		otelholdfast.WithLeaseSpans(),
	}, opts...)
	var err error
	if m.hook, err = otelholdfast.NewHook(opts...); err != nil {
		t.Fatal(err)
	}
	return m
}

func (m *telemetry) client(t testing.TB, e engine.Engine) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(e, holdfast.WithHooks(m.hook))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// points returns one line for each data point: name, attributes, and the sum or the count.
func (m *telemetry) points(t testing.TB) (all []string) {
	t.Helper()
	var got metricdata.ResourceMetrics
	if err := m.reader.Collect(context.Background(), &got); err != nil {
		t.Fatal(err)
	}
	line := func(name string, set attribute.Set, n any) {
		all = append(all, fmt.Sprintf("%s{%s} %v", name, set.Encoded(attribute.DefaultEncoder()), n))
	}
	for _, scope := range got.ScopeMetrics {
		for _, s := range scope.Metrics {
			switch data := s.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					line(s.Name, p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					line(s.Name, p.Attributes, p.Count)
				}
			default:
				t.Errorf("%s is a %T", s.Name, data)
			}
		}
	}
	slices.Sort(all)
	return all
}

func (m *telemetry) want(t testing.TB, want ...string) {
	t.Helper()
	if got := m.points(t); !slices.Equal(got, want) {
		t.Errorf("metrics:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func lock(t testing.TB, ctx context.Context, m *holdfast.Mutex) *holdfast.Lease {
	t.Helper()
	l, err := m.Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestMetrics(t *testing.T) {
	m := newTelemetry(t)
	c := m.client(t, memory.New())
	x := c.Mutex("stock:42", holdfast.WithReentrancy())
	l := lock(t, context.Background(), x)
	if _, err := x.TryLock(context.Background()); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Error(err)
	}
	inner := lock(t, l.Context(), x)
	m.want(t,
		`holdfast.acquire.duration{holdfast.kind=mutex,holdfast.outcome=busy} 1`,
		`holdfast.acquire.duration{holdfast.kind=mutex,holdfast.outcome=granted,holdfast.source=context} 1`,
		`holdfast.acquire.duration{holdfast.kind=mutex,holdfast.outcome=granted,holdfast.source=store} 1`,
		`holdfast.acquire.pending{holdfast.kind=mutex} 0`,
		`holdfast.lease.count{holdfast.kind=mutex,holdfast.state=held} 1`,
	)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, err := x.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	for _, l := range []*holdfast.Lease{inner, l} {
		if err := l.Release(context.Background()); err != nil {
			t.Error(err)
		}
	}
	broken := lock(t, context.Background(), x)
	if err := c.Break(context.Background(), "stock:42", broken.HolderID(), holdfast.Force()); err != nil {
		t.Fatal(err)
	}
	_ = broken.Release(context.Background())
	short, err := c.Semaphore("s", 2, holdfast.WithTTL(holdfast.MinTTL), holdfast.WithoutRenewal()).Acquire(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	<-short.Done()
	if _, err := c.Semaphore("s", 1).Acquire(context.Background(), 2); !errors.Is(err, holdfast.ErrTooHeavy) {
		t.Error(err)
	}
	_ = lock(t, context.Background(), c.Mutex("y")) // Close ends it
	_ = c.Close()
	got := strings.Join(m.points(t), "\n")
	for _, want := range []string{
		`holdfast.acquire.duration{holdfast.kind=mutex,holdfast.outcome=canceled} 1`,
		`holdfast.acquire.pending{holdfast.kind=mutex} 0`,
		`holdfast.lease.count{holdfast.kind=mutex,holdfast.state=held} 0`,
		`holdfast.lease.count{holdfast.kind=semaphore,holdfast.state=held} 0`,
		`holdfast.lease.losses{holdfast.cause=expired,holdfast.kind=semaphore} 1`,
		`holdfast.hold.duration{holdfast.kind=semaphore,holdfast.outcome=lost} 1`,
		`holdfast.hold.duration{holdfast.kind=mutex,holdfast.outcome=released} `,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in:\n%s", want, got)
		}
	}
	if strings.Contains(got, "stock") {
		t.Errorf("the name of a resource:\n%s", got)
	}
}

// events calls the hook directly, for what takes a store that fails.
func TestMetricsOfTrouble(t *testing.T) {
	m := newTelemetry(t, otelholdfast.WithResourceLabel(func(name string) string {
		area, _, _ := strings.Cut(name, ":")
		return area
	}))
	h := m.hook.(interface {
		holdfast.RenewHook
		holdfast.JeopardyStartHook
		holdfast.JeopardyEndHook
		holdfast.BreakHook
		holdfast.RecallHook
		holdfast.FallbackStartHook
		holdfast.FallbackEndHook
		holdfast.CleanupFailedHook
		holdfast.AcquireEndHook
		holdfast.LostHook
	})
	h.Renew(holdfast.RenewEvent{Resource: "a:1", Took: time.Millisecond, Left: time.Second})
	h.Renew(holdfast.RenewEvent{Resource: "a:2", Left: time.Second, Err: holdfast.ErrUnavailable})
	h.JeopardyStart(holdfast.JeopardyStartEvent{Resource: "a:1", Kind: "rw"})
	h.JeopardyStart(holdfast.JeopardyStartEvent{Resource: "a:2", Kind: "rw"})
	h.JeopardyEnd(holdfast.JeopardyEndEvent{Resource: "a:1", Kind: "rw"})
	h.Break(holdfast.BreakEvent{Resource: "b", Kind: "job"})
	h.Recall(holdfast.RecallEvent{Resource: "b", Kind: "rw"})
	h.FallbackStart(holdfast.FallbackStartEvent{})
	h.CleanupFailed(holdfast.CleanupFailedEvent{Resource: "b", Err: errors.New("odd")})
	h.AcquireEnd(context.Background(), holdfast.AcquireEndEvent{Resource: "c", Kind: "mutex", Outcome: holdfast.AcquireFailed, Err: holdfast.ErrDenied})
	h.AcquireEnd(context.Background(), holdfast.AcquireEndEvent{Resource: "c", Kind: "mutex", Outcome: holdfast.AcquireBroken, Err: holdfast.ErrNotAcquired})
	h.Lost(&holdfast.LostError{Resource: "d", Token: 7, Cause: holdfast.LostTaken}) // before its AcquireEnd
	m.want(t,
		`holdfast.acquire.duration{error.type=broken,holdfast.kind=mutex,holdfast.outcome=error,holdfast.resource=c} 1`,
		`holdfast.acquire.duration{error.type=denied,holdfast.kind=mutex,holdfast.outcome=error,holdfast.resource=c} 1`,
		`holdfast.acquire.pending{holdfast.kind=mutex,holdfast.resource=c} -2`,
		`holdfast.breaks{holdfast.kind=job,holdfast.resource=b} 1`,
		`holdfast.cleanup.failures{error.type=_OTHER,holdfast.resource=b} 1`,
		`holdfast.fallback.active{} 1`,
		`holdfast.lease.jeopardy{holdfast.kind=rw,holdfast.resource=a} 1`,
		`holdfast.lease.losses{holdfast.cause=taken,holdfast.resource=d} 1`,
		`holdfast.recalls{holdfast.kind=rw,holdfast.resource=b} 1`,
		`holdfast.renew.duration{error.type=unavailable,holdfast.resource=a} 1`,
		`holdfast.renew.duration{holdfast.resource=a} 1`,
		`holdfast.renew.left{error.type=unavailable,holdfast.resource=a} 1`,
		`holdfast.renew.left{holdfast.resource=a} 1`,
	)
	h.FallbackEnd(holdfast.FallbackEndEvent{})
	if got := m.points(t); !slices.Contains(got, `holdfast.fallback.active{} 0`) {
		t.Errorf("after the fallback: %q", got)
	}
}

func TestSpans(t *testing.T) {
	m := newTelemetry(t)
	c := m.client(t, memory.New())
	x := c.Mutex("stock:42")
	ctx, parent := m.tracer.Tracer("test").Start(context.Background(), "caller")
	l := lock(t, ctx, x)
	_, err := x.TryLock(ctx)
	held, ok := errors.AsType[*holdfast.HeldError](err)
	if !ok {
		t.Fatal(err)
	}
	short := lock(t, ctx, c.Mutex("short", holdfast.WithTTL(holdfast.MinTTL), holdfast.WithoutRenewal()))
	<-short.Done()
	_ = c.Close() // returns when the hook has
	parent.End()
	var names []string
	for _, s := range m.spans.Ended() {
		names = append(names, fmt.Sprintf("%s %v %s", s.Name(), s.Status().Code, s.Status().Description))
		if s.Name() == "caller" {
			continue
		}
		if s.Parent().SpanID() != parent.SpanContext().SpanID() || s.EndTime().Before(s.StartTime()) {
			t.Errorf("%s: parent %v, from %v to %v", s.Name(), s.Parent(), s.StartTime(), s.EndTime())
		}
		text := fmt.Sprint(s.Attributes(), s.Status(), s.Events())
		if strings.Contains(text, l.HolderID()) || strings.Contains(text, held.HolderID) || strings.Contains(text, "stock") {
			t.Errorf("%s has a holder ID or a name: %s", s.Name(), text)
		}
	}
	slices.Sort(names)
	want := []string{
		"caller Unset ", "holdfast.acquire Unset ", "holdfast.acquire Unset ", "holdfast.acquire Unset ",
		"holdfast.lease Error expired", "holdfast.lease Unset ",
	}
	if !slices.Equal(names, want) {
		t.Errorf("spans %q, want %q", names, want)
	}
	if n := len(m.spans.Started()) - len(m.spans.Ended()); n != 0 || codes.Unset != 0 {
		t.Errorf("%d spans have not ended", n)
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	for name, opt := range map[string]otelholdfast.Option{
		"nil": nil, "meters": otelholdfast.WithMeterProvider(nil), "tracers": otelholdfast.WithTracerProvider(nil),
	} {
		if _, err := otelholdfast.NewHook(opt); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := otelholdfast.NewHook(); err != nil {
		t.Errorf("with the global providers: %v", err)
	}
}

func TestLeasesHaveNoSpanByDefault(t *testing.T) {
	m := newTelemetry(t)
	var err error
	if m.hook, err = otelholdfast.NewHook(otelholdfast.WithMeterProvider(m.meters), otelholdfast.WithTracerProvider(m.tracer)); err != nil {
		t.Fatal(err)
	}
	l := lock(t, t.Context(), m.client(t, memory.New()).Mutex("r"))
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if acquires, leases := len(spans(m, "holdfast.acquire")), len(spans(m, "holdfast.lease")); acquires != 1 || leases != 0 {
		t.Errorf("%d spans of acquires, %d of leases; want 1 and 0", acquires, leases)
	}
}
