package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// idler holds leases and does nothing: what they cost is their renewals.
type idler struct {
	p      party
	held   []any // what a user keeps of each lease
	before memory
	after  memory
}

// keeper is a party whose leases are not simply locks that are kept: it says
// what a user has to do and to keep.
type keeper interface {
	keep(ctx context.Context, resource string) (held any, err error)
}

// memory is what a process has in use.
type memory struct {
	heap, stacks uint64
	goroutines   int
}

func inMemory() memory {
	runtime.GC()
	runtime.GC() // what the first one only marked as unused, such as pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{m.HeapAlloc, m.StackInuse, runtime.NumGoroutine()}
}

const (
	hands = 64        // goroutines that take the leases
	first = 4 * hands // leases after which the connections are there
)

// newIdler takes all leases. Memory is counted from when the connections of the
// client are open.
func newIdler(c contender, j job) (*idler, error) {
	if j.Leases <= first {
		return nil, fmt.Errorf("%d leases: more than %d are needed", j.Leases, first)
	}
	p, err := c.open(settings{addrs: j.Addrs, callers: hands, ttl: j.TTL})
	if err != nil {
		return nil, err
	}
	d := &idler{p: p, held: make([]any, j.Leases)}
	err = errors.Join(d.warm(j.Resource), d.takeAll(j.Resource, 0, first))
	d.before = inMemory()
	if err == nil {
		err = d.takeAll(j.Resource, first, j.Leases)
	}
	d.after = inMemory()
	if err != nil {
		p.close()
	}
	return d, err
}

// warm opens the connections that the hands use at a time: each has buffers of its
// own, which are nothing of a lease.
func (d *idler) warm(resource string) error {
	ctx := context.Background()
	return byHands(func(h int) (err error) {
		l := d.p.lock(fmt.Sprintf("%s:warm:%d", resource, h))
		for i := 0; i < 20 && err == nil; i++ {
			err = errors.Join(l.Lock(ctx), l.Unlock(ctx))
		}
		return err
	})
}

func (d *idler) takeAll(resource string, from, to int) error {
	var next atomic.Int64
	next.Store(int64(from))
	return byHands(func(int) (err error) {
		for i := next.Add(1) - 1; i < int64(to) && err == nil; i = next.Add(1) - 1 {
			err = d.take(fmt.Sprintf("%s:%d", resource, i), &d.held[i])
		}
		return err
	})
}

// byHands does something with all hands at once.
func byHands(do func(hand int) error) error {
	errs := make([]error, hands)
	var wg sync.WaitGroup
	for h := range hands {
		wg.Go(func() { errs[h] = do(h) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (d *idler) take(resource string, held *any) (err error) {
	ctx := context.Background() // a watchdog ends with the process
	if k, ok := d.p.(keeper); ok {
		*held, err = k.keep(ctx, resource)
		return err
	}
	l := d.p.lock(resource)
	*held = l
	return l.Lock(ctx)
}

func (d *idler) run(_ context.Context, w window) (*report, error) {
	sleepUntil(w.From)
	before := spent()
	sleepUntil(w.Until)
	n := float64(len(d.held) - first)
	return &report{
		Usage:      spent().minus(before),
		HeapEach:   (float64(d.after.heap) - float64(d.before.heap)) / n,
		StackEach:  (float64(d.after.stacks) - float64(d.before.stacks)) / n,
		Goroutines: float64(d.after.goroutines-d.before.goroutines) / n,
	}, nil
}

// close leaves the leases alone: to give them back takes long and is not
// measured. The process is killed next.
func (d *idler) close() {}

// idleOf holds leases.
func idleOf(k keeping) play {
	return func(ctx context.Context, s *stage, c contender) (figures, error) {
		there, err := s.site(c.on)
		if err != nil {
			return nil, err
		}
		j := job{Kind: "idle", Contender: c.name, Addrs: there.servers.addrs(), Resource: s.fresh("idle"), Leases: k.leases, TTL: k.ttl}
		if err := s.crew.begin(0, []job{j}); err != nil {
			return nil, err
		}
		length := time.Duration(k.intervals) * k.ttl / 3
		w := soon(100*time.Millisecond, length)
		if err := s.crew.open(0, 1, w); err != nil {
			return nil, err
		}
		used, err := there.watch(ctx, w, c)
		if err != nil {
			return nil, err
		}
		// Giving the leases back is not measured: the process ends, and the
		// store is emptied before the next slice.
		m := s.crew.members[0]
		a, err := m.hear()
		s.crew.kill(0)
		if err != nil {
			return nil, err
		}
		r, renewals := a.Report, float64(k.leases*k.intervals)
		return figures{
			heapEach: r.HeapEach, stackEach: r.StackEach, goroutinesEach: r.Goroutines,
			commandsEach: float64(used.commands) / renewals,
			readsEach:    float64(used.reads) / renewals,
			allocsEach:   float64(r.Usage.Allocs) / renewals,
			clientShare:  100 * share(r.Usage.CPU, length),
			serverShare:  100 * share(used.cpu, length),
		}, nil
	}
}

func share(cpu, length time.Duration) float64 { return cpu.Seconds() / length.Seconds() }
