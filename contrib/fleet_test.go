package contrib

import (
	"context"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
	"github.com/holdfast-go/holdfast/otelholdfast"
)

// service is a process of a fleet: a client with metrics behind an HTTP server, and a store
// that can fail.
type service struct {
	client *holdfast.Client
	store  *store
	server *httptest.Server
}

// store is a store in memory that can fail.
type store struct {
	*primitivetest.Net
	silent atomic.Bool // it does not answer a Peek
}

func (s *store) Peek(ctx context.Context, r engine.Resource) (engine.Brief, error) {
	if s.silent.Load() {
		return engine.Brief{}, primitivetest.Hang(ctx)
	}
	return s.Engine.Peek(ctx, r)
}

func newService(t *testing.T) *service {
	t.Helper()
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		t.Fatal(err)
	}
	meters := metric.NewMeterProvider(metric.WithReader(reader))
	hook, err := otelholdfast.NewHook(otelholdfast.WithMeterProvider(meters))
	if err != nil {
		t.Fatal(err)
	}
	s := &service{store: &store{Net: primitivetest.NewNet(memory.New())}}
	if s.client, err = holdfast.New(s.store, holdfast.WithHooks(hook)); err != nil {
		t.Fatal(err)
	}
	observed, err := otelholdfast.Observe(s.client, otelholdfast.WithMeterProvider(meters))
	if err != nil {
		t.Fatal(err)
	}
	s.server = httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(func() {
		_ = observed.Unregister()
		_ = s.client.Close()
		s.server.Close()
	})
	return s
}

// fleet is one healthy service, and one for each fault.
type fleet map[string]*service

// faults are played until ctx ends.
func faults() map[string]func(ctx context.Context, t *testing.T, s *service) {
	return map[string]func(ctx context.Context, t *testing.T, s *service){
		"healthy": recallLeases, // which is no fault
		"loss":    loseLeases,
		"late":    renewLate,
		"down":    loseStore,
		"silent":  silence,
		"wait":    waitLong,
		"broken":  breakLeases,
	}
}

func newFleet(t *testing.T) fleet {
	f := fleet{}
	for name := range faults() {
		f[name] = newService(t)
	}
	return f
}

// play plays all faults, beside ordinary work in each service.
func (f fleet) play(ctx context.Context, t *testing.T) *sync.WaitGroup {
	var wg sync.WaitGroup
	for name, s := range f {
		if name != "silent" { // its store answers nothing
			wg.Go(func() { work(ctx, t, s) })
		}
		wg.Go(func() { faults()[name](ctx, t, s) })
	}
	return &wg
}

// every calls f about every d until ctx ends.
func every(ctx context.Context, d time.Duration, f func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for ctx.Err() == nil {
		f()
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// work uses a mutex that is free, and a lease that is renewed.
func work(ctx context.Context, t *testing.T, s *service) {
	m := s.client.Mutex("work", holdfast.WithTTL(time.Minute))
	held, err := s.client.Election("leader", holdfast.WithTTL(30*time.Second)).Campaign(ctx, "")
	if err != nil {
		t.Error(err)
		return
	}
	every(ctx, 50*time.Millisecond, func() {
		if l, err := m.Lock(ctx); err == nil {
			_ = l.Release(ctx)
		}
	})
	_ = held.Release(context.WithoutCancel(ctx))
}

// recallLeases: another process wants what this one keeps after each release.
func recallLeases(ctx context.Context, t *testing.T, s *service) {
	other, err := holdfast.New(s.store)
	if err != nil {
		t.Error(err)
		return
	}
	defer other.Close()
	kept, wanted := s.client.Mutex("kept", holdfast.WithLinger(time.Second)), other.Mutex("kept")
	every(ctx, 100*time.Millisecond, func() {
		for _, m := range []*holdfast.Mutex{kept, wanted} {
			if l, err := m.Lock(ctx); err == nil {
				_ = l.Release(ctx)
			}
		}
	})
}

// loseLeases: a lease that is not renewed expires under its holder.
func loseLeases(ctx context.Context, t *testing.T, s *service) {
	m := s.client.Mutex("lost", holdfast.WithTTL(holdfast.MinTTL), holdfast.WithoutRenewal())
	every(ctx, time.Second, func() {
		if l, err := m.Lock(ctx); err == nil {
			<-l.Done()
		}
	})
}

// renewLate: the store refuses renewals for a while, and the lease is kept.
func renewLate(ctx context.Context, t *testing.T, s *service) {
	const ttl = 6 * time.Second
	l, err := s.client.Semaphore("late", 2, holdfast.WithTTL(ttl)).Acquire(ctx, 1)
	if err != nil {
		t.Error(err)
		return
	}
	refuse := func(ctx context.Context, batch []engine.Renewal) []error {
		errs := make([]error, len(batch))
		for i := range batch {
			errs[i] = primitivetest.Denied(ctx)
		}
		return errs
	}
	for ctx.Err() == nil {
		s.store.Set(func() { s.store.OnRenew = refuse })
		for ctx.Err() == nil && time.Until(l.Deadline()) > ttl/4 {
			pause(ctx, 10*time.Millisecond)
		}
		s.store.Set(func() { s.store.OnRenew = nil })
		pause(ctx, time.Second)
	}
	if err := l.Release(context.WithoutCancel(ctx)); err != nil {
		t.Errorf("the late lease: %v", err)
	}
}

// loseStore: some requests do not reach the store.
func loseStore(ctx context.Context, t *testing.T, s *service) {
	s.store.Set(func() {
		s.store.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
			if r.Resource.Name == "away" {
				return engine.Answer{}, primitivetest.Down(ctx)
			}
			return s.store.Engine.Acquire(ctx, r)
		}
		s.store.OnRelease = func(ctx context.Context, r engine.Release) error {
			if r.Resource.Name == "away" {
				return primitivetest.Down(ctx)
			}
			return s.store.Engine.Release(ctx, r)
		}
	})
	away, near := s.client.Semaphore("away", 2, holdfast.WithTTL(time.Second)), s.client.Semaphore("near", 2)
	every(ctx, 100*time.Millisecond, func() {
		_, _ = away.TryAcquire(ctx, 1)
		if l, err := near.TryAcquire(ctx, 1); err == nil {
			_ = l.Release(ctx)
		}
	})
}

// silence: the store answers nothing, and the locks fall back.
func silence(ctx context.Context, t *testing.T, s *service) {
	s.store.All(primitivetest.Hang)
	s.store.silent.Store(true)
	m := s.client.Mutex("open", holdfast.WithFallback(holdfast.FailOpen))
	every(ctx, 100*time.Millisecond, func() {
		if l, err := m.Lock(ctx); err == nil {
			_ = l.Release(ctx)
		}
	})
}

// waitLong: a holder that hangs.
func waitLong(ctx context.Context, t *testing.T, s *service) {
	rw := s.client.RWMutex("hung")
	for ctx.Err() == nil {
		l, err := rw.Lock(ctx)
		if err != nil {
			return
		}
		waits := make(chan struct{})
		go func() {
			defer close(waits)
			if l, err := rw.RLock(ctx); err == nil {
				_ = l.Release(ctx)
			}
		}()
		pause(ctx, 14*time.Second)
		_ = l.Release(context.WithoutCancel(ctx))
		<-waits
	}
}

// breakLeases: an operator breaks leases, which is no loss that alarms.
func breakLeases(ctx context.Context, t *testing.T, s *service) {
	m := s.client.Mutex("broken")
	every(ctx, 2*time.Second, func() {
		l, err := m.Lock(ctx)
		if err != nil {
			return
		}
		if err := s.client.Break(ctx, "broken", l.HolderID()); err == nil {
			pause(ctx, 1500*time.Millisecond) // until it arrives
		}
		_ = l.Release(context.WithoutCancel(ctx))
	})
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
