package etcd_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/holdfast-go/holdfast"
)

// session returns a session of etcd's own locks.
func session(b *testing.B, c *clientv3.Client) *concurrency.Session {
	b.Helper()
	s, err := concurrency.NewSession(c)
	must(b, err)
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// BenchmarkPair is a lock and its release that nobody else wants, beside etcd's own and beside two Puts, in turn. It
// reports medians, since the times of commits vary.
func BenchmarkPair(b *testing.B) {
	c := single(b)
	own, m := concurrency.NewMutex(session(b, c), b.Name()), newClient(b, c).Mutex("stock:42")
	pairs := []struct {
		unit string
		run  func()
		took []time.Duration
	}{
		{unit: "puts-µs", run: func() {
			for range 2 {
				_, err := c.Put(b.Context(), b.Name(), "a value")
				must(b, err)
			}
		}},
		{unit: "concurrency-µs", run: func() {
			must(b, own.Lock(b.Context()))
			must(b, own.Unlock(b.Context()))
		}},
		{unit: "holdfast-µs", run: func() {
			lease, err := m.Lock(b.Context())
			must(b, err)
			must(b, lease.Release(b.Context()))
		}},
	}
	for b.Loop() {
		for i := range pairs {
			began := time.Now()
			pairs[i].run()
			pairs[i].took = append(pairs[i].took, time.Since(began))
		}
	}
	for _, p := range pairs {
		slices.Sort(p.took)
		b.ReportMetric(float64(p.took[len(p.took)/2].Microseconds()), p.unit)
	}
}

// BenchmarkCrowd is 64 goroutines of one client that want one resource; an operation is a turn of one of them.
func BenchmarkCrowd(b *testing.B) {
	const crowd = 64
	run := func(b *testing.B, turn func(i int)) {
		var all sync.WaitGroup
		var turns atomic.Int64
		b.ResetTimer()
		for i := range crowd {
			all.Go(func() {
				for turns.Add(1) <= int64(b.N) {
					turn(i)
				}
			})
		}
		all.Wait()
	}
	b.Run("concurrency", func(b *testing.B) {
		c := single(b)
		var all []*concurrency.Mutex
		for range crowd { // a session is a holder, so each has its own
			all = append(all, concurrency.NewMutex(session(b, c), b.Name()))
		}
		run(b, func(i int) {
			must(b, all[i].Lock(b.Context()))
			must(b, all[i].Unlock(b.Context()))
		})
	})
	b.Run("holdfast", func(b *testing.B) {
		m := newClient(b, single(b)).Mutex("stock:42")
		run(b, func(int) {
			lease, err := m.Lock(b.Context())
			must(b, err)
			must(b, lease.Release(b.Context()))
		})
	})
}

// BenchmarkHandOff is two clients that always want one resource; an operation is a turn of one of them.
func BenchmarkHandOff(b *testing.B) {
	alternate := func(b *testing.B, lock func(i int) (unlock func())) {
		var both sync.WaitGroup
		b.ResetTimer()
		for i := range 2 {
			both.Go(func() {
				for range b.N/2 + 1 {
					lock(i)()
				}
			})
		}
		both.Wait()
	}
	b.Run("concurrency", func(b *testing.B) {
		all := []*concurrency.Mutex{concurrency.NewMutex(session(b, single(b)), b.Name()), concurrency.NewMutex(session(b, single(b)), b.Name())}
		alternate(b, func(i int) func() {
			must(b, all[i].Lock(b.Context()))
			return func() { must(b, all[i].Unlock(b.Context())) }
		})
	})
	b.Run("holdfast", func(b *testing.B) {
		all := []*holdfast.Mutex{newClient(b, single(b)).Mutex("stock:42"), newClient(b, single(b)).Mutex("stock:42")}
		alternate(b, func(i int) func() {
			lease, err := all[i].Lock(b.Context())
			must(b, err)
			return func() { must(b, lease.Release(b.Context())) }
		})
	})
}
