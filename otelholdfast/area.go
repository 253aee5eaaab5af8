package otelholdfast

import (
	"context"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/holdfast-go/holdfast"
)

// An area is the resources of one kind and one label. It has what is present of them, and
// the sets of attributes of what happens most, so that a pair looks up little.
type area struct {
	values   values
	pending  level
	leases   level
	jeopardy level

	granted  [holdfast.SourceTicket + 1]atomic.Pointer[set] // by source
	released atomic.Pointer[set]
	ended    [holdfast.HandOffLinger + 1]atomic.Pointer[set] // by the way of the release, for spans
}

// level is a number that is read when metrics are collected.
type level struct {
	n    atomic.Int64
	used atomic.Bool
	opt  metric.MeasurementOption
}

func (l *level) add(n int64) {
	l.n.Add(n)
	if !l.used.Load() {
		l.used.Store(true)
	}
}

func newArea(v values) *area {
	opt := metric.WithAttributeSet(attribute.NewSet(v.attributes()...))
	state := v
	state.state = "held"
	a := &area{values: v}
	a.pending.opt, a.jeopardy.opt = opt, opt
	a.leases.opt = metric.WithAttributeSet(attribute.NewSet(state.attributes()...))
	return a
}

// grant returns the set of attributes of a grant.
func (a *area) grant(s *sets, source holdfast.Source) *set {
	v := a.values
	v.outcome, v.source = "granted", source.String()
	if int(source) >= len(a.granted) {
		return s.of(v)
	}
	return kept(&a.granted[source], s, v)
}

// release returns the set of attributes of a lease that was released.
func (a *area) release(s *sets) *set {
	v := a.values
	v.outcome = "released"
	return kept(&a.released, s, v)
}

// end returns the set of attributes of the span of a lease that was released. trouble is the
// type of an error, or "".
func (a *area) end(s *sets, way holdfast.HandOff, trouble string) *set {
	v := a.values
	v.outcome, v.handOff, v.err = "released", way.String(), trouble
	if int(way) >= len(a.ended) || trouble != "" {
		return s.of(v)
	}
	return kept(&a.ended[way], s, v)
}

func kept(in *atomic.Pointer[set], s *sets, v values) *set {
	if known := in.Load(); known != nil {
		return known
	}
	fresh := s.of(v)
	in.Store(fresh)
	return fresh
}

// areaKey is the kind and the label of an area.
type areaKey struct{ kind, resource string }

// areas has all areas, at most maxSets: what is beyond has one without attributes.
type areas struct {
	mu   sync.RWMutex
	open map[areaKey]*area
	rest *area
}

func (as *areas) of(key areaKey) *area {
	as.mu.RLock()
	known := as.open[key]
	as.mu.RUnlock()
	if known != nil {
		return known
	}
	as.mu.Lock()
	defer as.mu.Unlock()
	if known = as.open[key]; known != nil {
		return known
	}
	if len(as.open) >= maxSets {
		return as.rest
	}
	fresh := newArea(values{kind: key.kind, resource: key.resource})
	as.open[key] = fresh
	return fresh
}

// observe returns a callback that reports one level of each area that has used it.
func (as *areas) observe(of func(*area) *level) metric.Int64Callback {
	return func(_ context.Context, o metric.Int64Observer) error {
		as.mu.RLock()
		defer as.mu.RUnlock()
		report := func(l *level) {
			if l.used.Load() {
				o.Observe(l.n.Load(), l.opt)
			}
		}
		for _, a := range as.open {
			report(of(a))
		}
		report(of(as.rest))
		return nil
	}
}
