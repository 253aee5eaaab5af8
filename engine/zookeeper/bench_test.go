package zookeeper

import (
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast"
)

// stopwatch takes times of several things in turn, so that noise meets all of them alike.
type stopwatch struct {
	b     *testing.B
	times map[string][]time.Duration
}

func (w *stopwatch) time(name string, f func()) {
	began := time.Now()
	f()
	w.times[name] = append(w.times[name], time.Since(began))
}

// report reports the median of each, and what one is of the others.
func (w *stopwatch) report(of string) {
	median := func(name string) float64 {
		all := slices.Clone(w.times[name])
		slices.Sort(all)
		return float64(all[len(all)/2])
	}
	for name := range w.times {
		w.b.ReportMetric(median(name)/1000, "µs/"+name)
		if name != of {
			w.b.ReportMetric(median(of)/median(name), of+"/"+name)
		}
	}
	w.b.ReportMetric(0, "ns/op")
}

func must[T any](b *testing.B) func(T, error) T {
	return func(v T, err error) T {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
		return v
	}
}

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPair compares Lock and Release with two bare writes and with the lock of the client library.
func BenchmarkPair(b *testing.B) {
	conn := connect(b, 10*time.Second, sharedServer(b).Addr())
	client := must[*holdfast.Client](b)(holdfast.New(New(conn)))
	defer client.Close()
	const path = "/bench-pair"
	if _, err := conn.Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
		b.Fatal(err)
	}
	data := make([]byte, 200)
	mutex, recipe := client.Mutex("pair"), zk.NewLock(conn, path+"/recipe", zk.WorldACL(zk.PermAll))
	w := &stopwatch{b: b, times: map[string][]time.Duration{}}
	for b.Loop() {
		w.time("sets", func() {
			must[*zk.Stat](b)(conn.Set(path, data, -1))
			must[*zk.Stat](b)(conn.Set(path, data, -1))
		})
		w.time("recipe", func() {
			check(b, recipe.Lock())
			check(b, recipe.Unlock())
		})
		w.time("pair", func() { check(b, must[*holdfast.Lease](b)(mutex.Lock(b.Context())).Release(b.Context())) })
		w.time("read", func() {
			must[string](b)(conn.Sync(path))
			_, _, err := conn.Get(path)
			check(b, err)
		})
	}
	w.report("pair")
}

// BenchmarkHandOff compares the time from a Release to the Lock that waits for it in another client with the
// same of the client library's lock, and with a bare write of a watched znode and its read.
func BenchmarkHandOff(b *testing.B) {
	addr := sharedServer(b).Addr()
	var conns [2]*zk.Conn
	var mutexes [2]*holdfast.Mutex
	var recipes [2]*zk.Lock
	for i := range conns {
		conns[i] = connect(b, 10*time.Second, addr)
		client := must[*holdfast.Client](b)(holdfast.New(New(conns[i])))
		b.Cleanup(func() { _ = client.Close() })
		mutexes[i] = client.Mutex("hand-off")
		recipes[i] = zk.NewLock(conns[i], "/bench-hand-off/recipe", zk.WorldACL(zk.PermAll))
	}
	const (
		path   = "/bench-hand-off"
		parked = 20 * time.Millisecond // until the waiter waits
	)
	if _, err := conns[0].Create(path, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && err != zk.ErrNodeExists {
		b.Fatal(err)
	}
	check(b, recipes[0].Lock())
	lease := must[*holdfast.Lease](b)(mutexes[0].Lock(b.Context()))
	w := &stopwatch{b: b, times: map[string][]time.Duration{}}
	turn := 0
	for b.Loop() {
		holder, waiter := turn%2, (turn+1)%2
		turn++
		_, _, changed, err := conns[waiter].GetW(path)
		check(b, err)
		w.time("watch", func() {
			must[*zk.Stat](b)(conns[holder].Set(path, nil, -1))
			<-changed
			_, _, err := conns[waiter].Get(path)
			check(b, err)
		})

		locked := make(chan error, 1)
		go func() { locked <- recipes[waiter].Lock() }()
		<-time.After(parked)
		w.time("recipe", func() {
			check(b, recipes[holder].Unlock())
			check(b, <-locked)
		})

		next := make(chan *holdfast.Lease, 1)
		go func() { next <- must[*holdfast.Lease](b)(mutexes[waiter].Lock(b.Context())) }()
		<-time.After(parked)
		w.time("pair", func() {
			check(b, lease.Release(b.Context()))
			lease = <-next
		})
	}
	check(b, recipes[turn%2].Unlock())
	check(b, lease.Release(b.Context()))
	w.report("pair")
}
