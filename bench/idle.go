package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
)

// idleLeases are leases that are only renewed.
type idleLeases struct {
	p      client
	held   []any // the value that a user keeps for each lease
	before memory
	after  memory
}

// leaseKeeper is a client with leases that need more than Lock. keep acquires a lease,
// renews it if that is left to the user, and returns the value that a user has to keep.
type leaseKeeper interface {
	keep(ctx context.Context, resource string) (held any, err error)
}

// memory is the memory and goroutines in use by a process.
type memory struct {
	heap, stacks uint64
	goroutines   int
}

func inMemory() memory {
	runtime.GC()
	runtime.GC() // frees what the first one only marked as unused, such as pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{m.HeapAlloc, m.StackInuse, runtime.NumGoroutine()}
}

const (
	openers = 64          // goroutines that acquire the leases
	first   = 4 * openers // leases after which all connections are open
)

// newIdleLeases acquires all leases. Memory is counted after the connections of the
// client are open.
func newIdleLeases(c contender, j job) (*idleLeases, error) {
	if j.Leases <= first {
		return nil, fmt.Errorf("%d leases: more than %d are needed", j.Leases, first)
	}
	p, err := c.open(settings{addrs: j.Addrs, callers: openers, ttl: j.TTL})
	if err != nil {
		return nil, err
	}
	d := &idleLeases{p: p, held: make([]any, j.Leases)}
	err = errors.Join(d.warm(j.Resource), d.acquireAll(j.Resource, 0, first))
	d.before = inMemory()
	if err == nil {
		err = d.acquireAll(j.Resource, first, j.Leases)
	}
	d.after = inMemory()
	if err != nil {
		p.close()
	}
	return d, err
}

// warm opens the connections that the openers use concurrently, because their buffers
// are not part of a lease.
func (d *idleLeases) warm(resource string) error {
	ctx := context.Background()
	return inParallel(func(h int) (err error) {
		l := d.p.lock(fmt.Sprintf("%s:warm:%d", resource, h))
		for i := 0; i < 20 && err == nil; i++ {
			err = errors.Join(l.Lock(ctx), l.Unlock(ctx))
		}
		return err
	})
}

func (d *idleLeases) acquireAll(resource string, from, to int) error {
	var next atomic.Int64
	next.Store(int64(from))
	return inParallel(func(int) (err error) {
		for i := next.Add(1) - 1; i < int64(to) && err == nil; i = next.Add(1) - 1 {
			err = d.acquire(fmt.Sprintf("%s:%d", resource, i), &d.held[i])
		}
		return err
	})
}

// inParallel calls do in all openers at once.
func inParallel(do func(opener int) error) error {
	errs := make([]error, openers)
	var wg sync.WaitGroup
	for h := range openers {
		wg.Go(func() { errs[h] = do(h) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (d *idleLeases) acquire(resource string, held *any) (err error) {
	ctx := context.Background() // a renewal loop ends with the process
	if k, ok := d.p.(leaseKeeper); ok {
		*held, err = k.keep(ctx, resource)
		return err
	}
	l := d.p.lock(resource)
	*held = l
	return l.Lock(ctx)
}

func (d *idleLeases) run(_ context.Context, w window) (*report, error) {
	sleepUntil(w.From)
	before := usageNow()
	sleepUntil(w.Until)
	used := usageNow().minus(before)
	n := float64(len(d.held) - first)
	return &report{
		Usage:      used,
		Lost:       d.lost(),
		HeapEach:   (float64(d.after.heap) - float64(d.before.heap)) / n,
		StackEach:  (float64(d.after.stacks) - float64(d.before.stacks)) / n,
		Goroutines: float64(d.after.goroutines-d.before.goroutines) / n,
	}, nil
}

// lost counts the leases that are known to be lost.
func (d *idleLeases) lost() (n int) {
	for _, h := range d.held {
		if l, ok := h.(*holdfast.Lease); ok && l.Err() != nil {
			n++
		}
	}
	return n
}

// close does not release the leases, which takes long and is not measured. The process
// is then killed.
func (d *idleLeases) close() {}

// idleOf measures leases that are only held.
func idleOf(k idleSize) measure {
	return func(ctx context.Context, s *testbed, c contender) (figures, error) {
		at, err := s.site(c.on)
		if err != nil {
			return nil, err
		}
		j := job{Kind: "idle", Contender: c.name, Addrs: at.addrs, Resource: s.newResource("idle"), Leases: k.leases, TTL: k.ttl}
		if err := s.workers.prepare(0, []job{j}); err != nil {
			return nil, err
		}
		length := time.Duration(k.intervals) * k.ttl / 3
		w := windowIn(100*time.Millisecond, length)
		if err := s.workers.open(0, 1, w); err != nil {
			return nil, err
		}
		used, err := at.watch(ctx, w, c)
		if err != nil {
			return nil, err
		}
		// Releasing the leases is not measured: the process ends, and the
		// store is emptied before the next slice.
		m := s.workers.processes[0]
		a, err := m.await()
		s.workers.kill(0)
		if err != nil {
			return nil, err
		}
		r, renewals := a.Report, float64(k.leases*k.intervals)
		return figures{
			heapEach: r.HeapEach, stackEach: r.StackEach, goroutinesEach: r.Goroutines,
			commandsEach: float64(used.commands) / renewals,
			readsEach:    float64(used.reads) / renewals,
			allocsEach:   float64(r.Usage.Allocs) / renewals,
			writeRate:    float64(used.writes) / length.Seconds(),
			lostLeases:   float64(r.Lost),
			clientShare:  100 * share(r.Usage.CPU, length),
			serverShare:  100 * share(used.cpu, length),
		}, nil
	}
}

func share(cpu, length time.Duration) float64 { return cpu.Seconds() / length.Seconds() }
