package otelholdfast

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
)

// Trace implements holdfast.TraceHook. It returns the span in ctx if it is
// sampled: a link to any other leads nowhere.
func (h *hook) Trace(ctx context.Context) holdfast.SpanRef {
	s := trace.SpanContextFromContext(ctx)
	if !s.IsValid() || !s.IsSampled() {
		return holdfast.SpanRef{}
	}
	return holdfast.SpanRef{TraceID: s.TraceID(), SpanID: s.SpanID()}
}

// linkTo returns a link to the span of a holder.
func linkTo(s holdfast.SpanRef) trace.SpanStartOption {
	return trace.WithLinks(trace.Link{SpanContext: trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: s.TraceID, SpanID: s.SpanID, TraceFlags: trace.FlagsSampled, Remote: true,
	})})
}
