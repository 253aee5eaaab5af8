//go:build !race

package holdfast_test

import (
	"context"
	"testing"
	"time"

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
