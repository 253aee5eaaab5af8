package otelholdfast

import (
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// An Option configures a hook, or what Observe reports.
type Option func(*options)

type options struct {
	meters  metric.MeterProvider
	tracers trace.TracerProvider
	label   func(resource string) string
	leases  bool
}

// WithMeterProvider sets where metrics go (default: otel.GetMeterProvider).
func WithMeterProvider(p metric.MeterProvider) Option {
	return func(o *options) { o.meters = p }
}

// WithTracerProvider sets where spans go (default: otel.GetTracerProvider). To
// make none, pass noop.NewTracerProvider().
func WithTracerProvider(p trace.TracerProvider) Option {
	return func(o *options) { o.tracers = p }
}

// WithLeaseSpans adds a span holdfast.lease for each acquire whose span is recorded,
// from the grant to the end of the lease. Default: none.
func WithLeaseSpans() Option {
	return func(o *options) { o.leases = true }
}

// WithResourceLabel adds the attribute holdfast.resource, with what label
// returns for the name of a resource, to metrics and spans; none if it returns
// "". The result should have few values, such as the part of the name before
// the first colon. label is called for each event and must be quick and safe
// for concurrent use. Default: no attribute.
func WithResourceLabel(label func(resource string) string) Option {
	return func(o *options) { o.label = label }
}

// optionsOf applies options to the defaults.
func optionsOf(opts []Option) (options, error) {
	o := options{meters: otel.GetMeterProvider(), tracers: otel.GetTracerProvider()}
	for _, set := range opts {
		if set == nil {
			return o, errors.New("otelholdfast: an Option is nil")
		}
		set(&o)
	}
	if o.meters == nil || o.tracers == nil {
		return o, errors.New("otelholdfast: a provider is nil")
	}
	return o, nil
}
