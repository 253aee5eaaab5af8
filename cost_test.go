//go:build !race

package holdfast_test

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// What an uncontended Lock and Release allocate beyond the engine's own calls.
func TestAllocationsOfAnUncontendedPair(t *testing.T) {
	ctx := context.Background()
	m := newClient(t, memory.New()).Mutex("x")
	pair := testing.AllocsPerRun(2000, func() {
		l, err := m.Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(ctx); err != nil {
			t.Fatal(err)
		}
	})
	e, who := memory.New(), &engine.Client{ID: "c"}
	res := engine.Resource{Prefix: "p", Name: "x"}
	bare := testing.AllocsPerRun(2000, func() {
		_, _ = e.Acquire(ctx, engine.Request{Resource: res, ID: "c.1", Client: who, Kind: engine.KindMutex,
			Capacity: 1, Weight: 1, TTL: 15 * time.Second, Queue: true})
		_ = e.Release(ctx, engine.Release{Resource: res, Held: engine.Held{ID: "c.1"}})
	})
	t.Logf("Lock and Release: %.0f allocations, of which the engine %.0f", pair, bare)
	if pair-bare > 12 {
		t.Errorf("%.0f allocations beyond the engine's; want at most 12", pair-bare)
	}
}

// patient is a store that grants everything and keeps nothing, so that what a
// lease takes is the client's.
type patient struct {
	engine.Engine
	token uint64
}

func (p *patient) Acquire(_ context.Context, r engine.Request) (engine.Answer, error) {
	p.token += 1 + r.Reserve
	return engine.Answer{Status: engine.Granted, Token: p.token, TTL: r.TTL}, nil
}

func (p *patient) Release(context.Context, engine.Release) error { return nil }
func (p *patient) Leave(string)                                  {}

func (p *patient) Listen(context.Context, string, string, func(engine.Wakeup)) (engine.Listener, error) {
	return nil, engine.ErrUnavailable
}

// What a held lease keeps, its handle with an option and all but the caller's
// own name and pointer. See also TestNoGoroutinePerHeldLease.
func TestHeapOfAHeldLease(t *testing.T) {
	for _, n := range []int{1000, 10_000, 100_000} {
		c := newClient(t, &patient{})
		names, leases := make([]string, n), make([]*holdfast.Lease, n)
		for i := range names {
			names[i] = "stock:" + strconv.Itoa(i)
		}
		before := heap()
		for i, name := range names {
			leases[i] = mustLock(t, c.Mutex(name, holdfast.WithTTL(time.Hour)), context.Background())
		}
		each := (heap() - before) / float64(n)
		t.Logf("%d leases: %.0f bytes each", n, each)
		if each > 600 {
			t.Errorf("%d leases: %.0f bytes of heap each; want at most 600", n, each)
		}
		runtime.KeepAlive(names)
		runtime.KeepAlive(leases)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// heap is the bytes in use.
func heap() float64 {
	runtime.GC()
	runtime.GC() // what the first one only marked as unused, such as pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func BenchmarkUncontendedPair(b *testing.B) {
	ctx := context.Background()
	m := newClient(b, memory.New()).Mutex("x")
	b.ReportAllocs()
	for b.Loop() {
		l, err := m.Lock(ctx)
		if err != nil {
			b.Fatal(err)
		}
		_ = l.Release(ctx)
	}
}

func BenchmarkContended64(b *testing.B) {
	ctx := context.Background()
	m := newClient(b, memory.New()).Mutex("x")
	b.SetParallelism(32)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l, err := m.Lock(ctx)
			if err != nil {
				b.Error(err)
				return
			}
			_ = l.Release(ctx)
		}
	})
}
