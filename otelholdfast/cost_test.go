package otelholdfast_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	api "go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/otelholdfast"
)

// BenchmarkPair is what the hook adds to a lock and an unlock.
func BenchmarkPair(b *testing.B) {
	ctx := context.Background()
	metrics := otelholdfast.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())))
	for _, k := range []struct {
		name   string
		tracer otelholdfast.Option
		more   []otelholdfast.Option
	}{
		{"metrics", otelholdfast.WithTracerProvider(noop.NewTracerProvider()), nil},
		{"and spans, not sampled", otelholdfast.WithTracerProvider(trace.NewTracerProvider(trace.WithSampler(trace.NeverSample()))), nil},
		{"and spans, sampled", otelholdfast.WithTracerProvider(trace.NewTracerProvider()), nil},
		{"and spans of leases", otelholdfast.WithTracerProvider(trace.NewTracerProvider()), []otelholdfast.Option{otelholdfast.WithLeaseSpans()}},
	} {
		b.Run(k.name, func(b *testing.B) {
			hook, err := otelholdfast.NewHook(append(k.more, metrics, k.tracer)...)
			if err != nil {
				b.Fatal(err)
			}
			h := hook.(interface {
				holdfast.AcquireStartHook
				holdfast.TraceHook
				holdfast.AcquireEndHook
				holdfast.ReleaseHook
			})
			b.ReportAllocs()
			for token := uint64(1); b.Loop(); token++ {
				h.AcquireStart(ctx, holdfast.AcquireStartEvent{Resource: "stock:42", Kind: "mutex", Weight: 1})
				_ = h.Trace(ctx)
				h.AcquireEnd(ctx, holdfast.AcquireEndEvent{
					Resource: "stock:42", Kind: "mutex", Weight: 1, Token: token,
					Waited: time.Millisecond, Source: holdfast.SourceStore, Outcome: holdfast.AcquireGranted,
				})
				h.Release(holdfast.ReleaseEvent{
					Resource: "stock:42", Kind: "mutex", Token: token, Held: time.Millisecond, HandOff: holdfast.HandOffStore,
				})
			}
		})
	}
}

// BenchmarkSDK is what the SDK alone takes for what the hook reports of a pair, with the same
// attributes: the part of BenchmarkPair that the hook cannot reduce.
func BenchmarkSDK(b *testing.B) {
	tracer, ctx := trace.NewTracerProvider().Tracer("bare"), context.Background()
	waits, err := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader())).Meter("bare").Float64Histogram("waits")
	if err != nil {
		b.Fatal(err)
	}
	text := attribute.String
	acquired := []attribute.KeyValue{text("holdfast.kind", "mutex"), text("holdfast.outcome", "granted"), text("holdfast.source", "store")}
	released := []attribute.KeyValue{text("holdfast.kind", "mutex"), text("holdfast.outcome", "released"), text("holdfast.handoff", "store")}
	set := []api.RecordOption{api.WithAttributeSet(attribute.NewSet(slices.Clone(acquired)...))}
	measure := func() { waits.Record(ctx, .001, set...) }
	spans := func() {
		_, span := tracer.Start(ctx, "holdfast.acquire", oteltrace.WithTimestamp(time.Now()))
		span.SetAttributes(acquired...)
		span.End()
		_, span = tracer.Start(ctx, "holdfast.lease")
		span.SetAttributes(released...)
		span.End()
	}
	b.Run("two measurements", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			measure()
			measure()
		}
	})
	b.Run("and two spans", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			measure()
			spans()
			measure()
		}
	})
}
