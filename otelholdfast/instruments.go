package otelholdfast

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// leaseCount is a metric of the hook and of Observe.
const (
	leaseCount     = "holdfast.lease.count"
	leaseCountText = "Leases that are held, or kept after their last release."
)

// instruments are the metrics of the hook; docs/METRICS.md describes them.
type instruments struct {
	acquire  metric.Float64Histogram
	hold     metric.Float64Histogram
	losses   metric.Int64Counter
	renew    metric.Float64Histogram
	left     metric.Float64Histogram
	breaks   metric.Int64Counter
	recalls  metric.Int64Counter
	fallback metric.Int64UpDownCounter
	cleanups metric.Int64Counter
}

func (n *instruments) open(m metric.Meter, as *areas) error {
	var all []error
	// The bounds are for waits, holds and round trips, in seconds.
	buckets := metric.WithExplicitBucketBoundaries(.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 300)
	histogram := func(name, text string) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(text), buckets)
		all = append(all, err)
		return h
	}
	counter := func(name, unit, text string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text))
		all = append(all, err)
		return c
	}
	observed := func(name, unit, text string, of func(*area) *level) {
		_, err := m.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(text),
			metric.WithInt64Callback(as.observe(of)))
		all = append(all, err)
	}
	n.acquire = histogram("holdfast.acquire.duration", "Time from the call of an acquire to its end.")
	observed("holdfast.acquire.pending", "{request}", "Acquires that have not ended.", func(a *area) *level { return &a.pending })
	n.hold = histogram("holdfast.hold.duration", "Time from the grant of a lease to its end.")
	observed(leaseCount, "{lease}", leaseCountText, func(a *area) *level { return &a.leases })
	n.losses = counter("holdfast.lease.losses", "{loss}", "Leases that were lost.")
	n.renew = histogram("holdfast.renew.duration", "Time of the call to the store that renewed a lease, successful or not.")
	n.left = histogram("holdfast.renew.left", "Time left of the trust window after a renewal, successful or not.")
	observed("holdfast.lease.jeopardy", "{lease}", "Leases whose renewal is overdue.", func(a *area) *level { return &a.jeopardy })
	n.recalls = counter("holdfast.recalls", "{recall}", "Leases that the store recalled, because another process wants them.")
	n.breaks = counter("holdfast.breaks", "{break}", "Leases and waits that an operator broke.")
	var err error
	n.fallback, err = m.Int64UpDownCounter("holdfast.fallback.active", metric.WithUnit("{client}"), metric.WithDescription("Clients whose locks fall back at once."))
	all = append(all, err)
	n.cleanups = counter("holdfast.cleanup.failures", "{cleanup}", "Releases and withdrawals that the store never confirmed.")
	return errors.Join(all...)
}
