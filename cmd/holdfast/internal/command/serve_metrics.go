package command

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/metrics"
)

const (
	// scrapeTimeout bounds the reading of a scrape. Prometheus gives up after 10 s by default.
	scrapeTimeout = 8 * time.Second
	// scrapeEvery is the least time between two readings: several scrapers share one.
	scrapeEvery = time.Second
)

// storeMetrics serves what a reading of the store finds, to Prometheus. It reads when it is scraped.
type storeMetrics struct {
	s *session

	mu   sync.Mutex
	last metrics.Sample
	at   time.Time
}

// withMetrics serves metrics at /metrics, and all else by another handler.
func withMetrics(rest http.Handler, m *storeMetrics) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" && r.Method == http.MethodGet {
			m.ServeHTTP(w, r)
			return
		}
		rest.ServeHTTP(w, r)
	})
}

// ServeHTTP implements http.Handler.
func (m *storeMetrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	if time.Since(m.at) >= scrapeEvery {
		m.last, m.at = m.read(context.WithoutCancel(r.Context())), time.Now()
	}
	sample := m.last
	m.mu.Unlock()
	sample.Serve(w)
}

// kindMetrics is what was found of the resources of one kind.
type kindMetrics struct {
	resources                 map[string]int // by state
	leases, waiters           int
	unknown                   bool // how many waiters there are
	longestLease, longestWait time.Duration
}

// read reads the store. If that fails, only holdfast_store_up is in the sample.
func (m *storeMetrics) read(ctx context.Context) metrics.Sample {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	began := time.Now()
	const up = "Whether the store could be read: 1, otherwise 0."
	var s metrics.Sample
	kinds, err := m.count(ctx)
	if err != nil {
		s.Gauge("holdfast_store_up", up, 0, nil)
		return s
	}
	s.Gauge("holdfast_store_up", up, 1, nil)
	s.Gauge("holdfast_store_read_duration_seconds", "How long the reading of all resources in use took.", time.Since(began).Seconds(), nil)
	each := func(name, help string, value func(k *kindMetrics) (float64, bool)) {
		for _, kind := range metricKinds {
			if v, ok := value(kinds[kind]); ok {
				s.Gauge(name, help, v, metrics.Labels{"kind", kind})
			}
		}
	}
	for _, kind := range metricKinds {
		for _, state := range []string{"held", "contended", "waiting"} {
			s.Gauge("holdfast_store_resources", "Resources in use: held without waiters, contended, or waiting, which means waiters without a holder.",
				float64(kinds[kind].resources[state]), metrics.Labels{"kind", kind, "state", state})
		}
	}
	each("holdfast_store_leases", "Leases that are held.", func(k *kindMetrics) (float64, bool) { return float64(k.leases), true })
	each("holdfast_store_waiters", "Attempts that wait; missing if the store does not show them, as a quorum.", func(k *kindMetrics) (float64, bool) {
		return float64(k.waiters), !k.unknown
	})
	each("holdfast_store_longest_lease_seconds", "How long the oldest lease has been held.", func(k *kindMetrics) (float64, bool) { return k.longestLease.Seconds(), true })
	each("holdfast_store_longest_wait_seconds", "How long the oldest waiter has waited; missing if the store does not show waiters.", func(k *kindMetrics) (float64, bool) {
		return k.longestWait.Seconds(), !k.unknown
	})
	return s
}

// metricKinds are the values of the label kind. A kind is a text in the store, so any other is "other".
var metricKinds = [...]string{"mutex", "rw", "semaphore", "election", "job", "cond", "latch", "other"}

// count reads all resources in use.
func (m *storeMetrics) count(ctx context.Context) (map[string]*kindMetrics, error) {
	now, err := m.s.now(ctx)
	if err != nil {
		return nil, err
	}
	kinds := make(map[string]*kindMetrics)
	for _, kind := range metricKinds {
		kinds[kind] = &kindMetrics{resources: make(map[string]int)}
	}
	found, unknown := false, false
	for snap, err := range m.s.List(ctx, "*") {
		if err != nil {
			return nil, err
		}
		k := kinds[snap.Kind]
		if k == nil {
			k = kinds["other"]
		}
		k.add(snap, now)
		found, unknown = true, unknown || snap.NoWaiters
	}
	if !found {
		free, err := m.s.Snapshot(ctx, "any") // whether waiters are shown is the same for all
		if err != nil {
			return nil, err
		}
		unknown = free.NoWaiters
	}
	for _, k := range kinds {
		k.unknown = unknown
	}
	return kinds, nil
}

// add counts a resource.
func (k *kindMetrics) add(s holdfast.Snapshot, now time.Time) {
	state := "held"
	switch {
	case len(s.Holders) == 0:
		state = "waiting"
	case len(s.Waiters) > 0:
		state = "contended"
	}
	k.resources[state]++
	k.leases += len(s.Holders)
	k.waiters += len(s.Waiters)
	for _, h := range s.Holders {
		k.longestLease = max(k.longestLease, now.Sub(h.Since))
	}
	for _, w := range s.Waiters {
		k.longestWait = max(k.longestWait, now.Sub(w.Since))
	}
}
