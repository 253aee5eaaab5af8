package contrib

import (
	"context"
	"net/http/httptest"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/otelholdfast"
)

// service has two nodes and a Redis of its own, behind a link.
type service struct {
	redis   *redistest.Server
	link    *redistest.Proxy
	nodes   []*node
	metrics string      // URL
	holder  *os.Process // nil: the service has no more nodes
}

// node is a client on connections of its own.
type node struct {
	*holdfast.Client
	stock *fence.Redis
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{redis: redistest.Start(t)}
	s.link = redistest.NewProxy(t, s.redis.Addr())
	s.nodes, s.metrics = newNodes(s.link.Addr(), 2, t.Cleanup)
	return s
}

// newNodes returns nodes on the Redis at an address, and the URL of their metrics. What ends them is given to cleanup.
func newNodes(address string, n int, cleanup func(func())) (nodes []*node, url string) {
	registry := prometheus.NewRegistry()
	reader := must(exporter.New(exporter.WithRegisterer(registry)))
	meters := otelholdfast.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
	hook := must(otelholdfast.NewHook(meters))
	for range n {
		rdb := redis.NewClient(&redis.Options{Addr: address})
		c := must(holdfast.New(goredis.New(rdb), holdfast.WithHooks(hook)))
		cleanup(func() { _, _ = c.Close(), rdb.Close() })
		nodes = append(nodes, &node{c, fence.NewRedis(rdb)})
	}
	observed := must(otelholdfast.Observe(nodes[0].Client, meters))
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	cleanup(func() {
		_ = observed.Unregister()
		server.Close()
	})
	return nodes, server.URL
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// fleet is one healthy service, and one for each fault.
type fleet map[string]*service

// faults are played until ctx ends.
func faults() map[string]func(ctx context.Context, t *testing.T, s *service) {
	return map[string]func(ctx context.Context, t *testing.T, s *service){
		"healthy": crowd, // which is no fault
		"loss":    stopHolder,
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
	f["loss"].startHolder(t)
	return f
}

// play plays all faults, and in each service the scenes of holdfast demo. Where the store hangs, one node plays them: a grant
// that the store pushes to a waiter is lost unless the waiter reaches the store within seconds.
func (f fleet) play(ctx context.Context, t *testing.T) *sync.WaitGroup {
	var wg sync.WaitGroup
	for name, s := range f {
		nodes := s.nodes
		if name == "late" || name == "silent" {
			nodes = nodes[:1]
		}
		for _, n := range nodes {
			wg.Go(func() { n.sell(ctx) })
			wg.Go(func() { n.report(ctx) })
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

// crowd: there is always a waiter, and each has its turn. A node also wants what the other keeps after each release.
func crowd(ctx context.Context, _ *testing.T, s *service) {
	use := func(m *holdfast.Mutex, d time.Duration) {
		if l, err := m.Lock(ctx); err == nil {
			pause(ctx, d)
			_ = l.Release(ctx)
		}
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for range 3 {
		wg.Go(func() {
			every(ctx, time.Millisecond, func() { use(s.nodes[0].Mutex("wanted"), 100*time.Millisecond) })
		})
	}
	every(ctx, 100*time.Millisecond, func() {
		for _, n := range s.nodes {
			use(n.Mutex("kept", holdfast.WithLinger(time.Second)), 0)
		}
	})
}

// ttl is that of the leases that the faults meet. Those of the scenes have ttlOfScenes, so that they survive a hang.
const ttl = 9 * time.Second

// stopHolder: the process of the holder is stopped for longer than its TTL, and others take over.
func stopHolder(ctx context.Context, t *testing.T, s *service) {
	every(ctx, 3*time.Second, func() {
		for _, signal := range []os.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
			if err := s.holder.Signal(signal); err != nil {
				t.Error(err)
			}
			pause(ctx, 2*time.Second)
		}
	})
}

// renewLate: the link hangs for a part of the TTL, and the lease is kept.
func renewLate(ctx context.Context, t *testing.T, s *service) {
	l, err := s.nodes[0].Semaphore("late", 2, holdfast.WithTTL(ttl)).Acquire(ctx, 1)
	if err != nil {
		t.Error(err)
		return
	}
	for ctx.Err() == nil {
		s.link.Blackhole()
		for ctx.Err() == nil && time.Until(l.Deadline()) > ttl/3 {
			pause(ctx, 10*time.Millisecond)
		}
		s.link.Heal()
		for ctx.Err() == nil && l.Err() == nil && time.Until(l.Deadline()) < ttl/2 {
			pause(ctx, 10*time.Millisecond)
		}
		pause(ctx, time.Second)
	}
	if err := l.Release(context.WithoutCancel(ctx)); err != nil {
		t.Errorf("the late lease: %v", err)
	}
}

// loseStore: the Redis is killed under a leader, and is back when all have fired.
func loseStore(ctx context.Context, t *testing.T, s *service) {
	if _, err := s.nodes[0].Election("leader", holdfast.WithTTL(ttl)).Campaign(ctx, ""); err != nil {
		t.Error(err)
	}
	pause(ctx, 2*time.Second)
	s.redis.Kill()
	<-ctx.Done()
	s.redis.Restart() // so that the clients close at once
}

// silence: the Redis is stopped, and the locks fall back.
func silence(ctx context.Context, _ *testing.T, s *service) {
	pause(ctx, 2*time.Second)
	s.redis.Pause()
	defer s.redis.Resume()
	m := s.nodes[0].Mutex("open", holdfast.WithFallback(holdfast.FailOpen))
	every(ctx, 100*time.Millisecond, func() {
		if l, err := m.Lock(ctx); err == nil {
			_ = l.Release(ctx)
		}
	})
}

// waitLong: a holder on one node hangs, and the other node waits. Before that it waits for a moment, since Prometheus has
// no rate of what is counted for the first time.
func waitLong(ctx context.Context, _ *testing.T, s *service) {
	hung, waiting := s.nodes[0].RWMutex("hung"), s.nodes[1].RWMutex("hung")
	for hang := time.Second; ctx.Err() == nil; hang = 11 * time.Second {
		l, err := hung.Lock(ctx)
		if err != nil {
			return
		}
		waits := make(chan struct{})
		go func() {
			defer close(waits)
			if l, err := waiting.RLock(ctx); err == nil {
				_ = l.Release(ctx)
			}
		}()
		pause(ctx, hang)
		_ = l.Release(context.WithoutCancel(ctx))
		<-waits
	}
}

// breakLeases: an operator breaks leases, which is no loss that alarms.
func breakLeases(ctx context.Context, t *testing.T, s *service) {
	m := s.nodes[0].Mutex("broken")
	every(ctx, 2*time.Second, func() {
		l, err := m.Lock(ctx)
		if err != nil {
			return
		}
		if err := s.nodes[1].Break(ctx, "broken", l.HolderID()); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		select {
		case <-l.Done():
		case <-ctx.Done():
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
