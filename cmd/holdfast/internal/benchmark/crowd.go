package benchmark

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
)

// crowd runs callers that take turns on the resources that name returns.
func (c Config) crowd(ctx context.Context, name func(i int) string) (Turns, error) {
	turns := make([]int, c.Callers)
	longest := make([]time.Duration, c.Callers)
	errs := make([]error, c.Callers)
	start := time.Now()
	var over atomic.Bool
	timer := time.AfterFunc(c.For, func() { over.Store(true) })
	defer timer.Stop()
	var wg sync.WaitGroup
	for i := range c.Callers {
		m := c.Client.Mutex(name(i))
		wg.Go(func() {
			for (turns[i] == 0 || !over.Load()) && errs[i] == nil {
				asked := time.Now()
				l, err := m.Lock(ctx)
				if err != nil {
					errs[i] = err
					return
				}
				longest[i] = max(longest[i], time.Since(asked))
				errs[i] = l.Release(ctx)
				turns[i]++
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	t := Turns{Callers: c.Callers}
	total, least := 0, turns[0]
	for i, n := range turns {
		total += n
		least = min(least, n)
		t.LongestWait = max(t.LongestWait, longest[i])
	}
	t.PerSecond = float64(total) / elapsed.Seconds()
	t.WorstCaller = float64(least) * float64(c.Callers) / float64(total)
	return t, errors.Join(errs...)
}

// holdTime is how long each of two clients holds the lock, so that the other one waits for it.
const holdTime = time.Millisecond

// handOff hands a lock to and fro between two clients.
func (c Config) handOff(ctx context.Context, name string) (Times, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &passing{end: time.Now().Add(c.For), last: -1}
	var wg sync.WaitGroup
	for i, client := range []*holdfast.Client{c.Client, c.Other} {
		m := client.Mutex(name)
		wg.Go(func() {
			for more := true; more; {
				l, err := m.Lock(ctx)
				if err != nil {
					cancel(err) // otherwise the other one waits for ever
					return
				}
				more = p.hold(i)
				if err := l.Release(ctx); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return timesOf(p.gaps), context.Cause(ctx)
}

// passing is what the holder records. The measured lock excludes the other client; mu is for Go's
// memory model and is never contended.
type passing struct {
	mu       sync.Mutex
	end      time.Time
	last     int // client that held the lock last
	released time.Time
	gaps     []time.Duration
}

// hold is one client's turn. It reports whether there should be more.
func (p *passing) hold(client int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last >= 0 && p.last != client {
		p.gaps = append(p.gaps, time.Since(p.released))
	}
	p.last = client
	time.Sleep(holdTime)
	p.released = time.Now()
	return len(p.gaps) == 0 || p.released.Before(p.end)
}
