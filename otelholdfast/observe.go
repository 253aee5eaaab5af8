package otelholdfast

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-go/holdfast"
)

// Observe reports what only [holdfast.Client.Stats] has: the leases that the
// client keeps after their last release (holdfast.lease.count with the state
// lingering), and the wake-ups that it has received (holdfast.wakeups). They are
// read when metrics are collected. Of several clients the sums are reported.
// Unregister the result when the client is closed. Of the options only
// [WithMeterProvider] has an effect. Observe returns an error if client or an
// option is nil, or the meter provider refuses an instrument.
func Observe(client *holdfast.Client, opts ...Option) (metric.Registration, error) {
	if client == nil {
		return nil, errors.New("otelholdfast: the client is nil")
	}
	o, err := optionsOf(opts)
	if err != nil {
		return nil, err
	}
	m := o.meters.Meter(scope)
	leases, err := m.Int64ObservableUpDownCounter(leaseCount, metric.WithUnit("{lease}"), metric.WithDescription(leaseCountText))
	if err != nil {
		return nil, err
	}
	wakeups, err := m.Int64ObservableCounter("holdfast.wakeups", metric.WithUnit("{wakeup}"),
		metric.WithDescription("Wake-ups that the store has sent to the client."))
	if err != nil {
		return nil, err
	}
	lingering := metric.WithAttributeSet(attribute.NewSet(keyState.String("lingering")))
	return m.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		s := client.Stats()
		to.ObserveInt64(leases, int64(s.Lingering), lingering)
		to.ObserveInt64(wakeups, int64(s.Wakeups))
		return nil
	}, leases, wakeups)
}
