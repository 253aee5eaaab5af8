package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// crowd is callers that take as many turns as they can, with a pause after each turn
// if the job has one.
type crowd struct {
	board   *board
	c       contender
	j       job
	clients []client
	callers []*caller
	writer  *caller // nil: none
	phase   atomic.Int32
}

// The phases of a crowd.
const (
	ramping int32 = iota
	counting
	ended
)

// caller is one goroutine and its results.
type caller struct {
	l       lock
	number  int64 // unique in all processes
	turns   int
	passed  int           // turns that follow another caller's
	longest time.Duration // in Lock, including a call that was cut off
	held    time.Duration
	waits   *hdrhistogram.Histogram // Lock
	pairs   *hdrhistogram.Histogram // Lock and Unlock
	gaps    *hdrhistogram.Histogram // since the last release
	err     error
}

// longestTime is the largest value of the histograms, in nanoseconds.
const longestTime = int64(10 * time.Minute)

func newCaller(l lock, j job) *caller {
	c := &caller{l: l, waits: hdrhistogram.New(100, longestTime, 2)}
	if j.Hold > 0 && !j.overlaps() {
		c.gaps = hdrhistogram.New(100, longestTime, 3)
	} else if j.Clients*j.Callers == 1 {
		c.pairs = hdrhistogram.New(100, longestTime, 3)
	}
	return c
}

func newCrowd(b *board, c contender, j job) (*crowd, error) {
	w := &crowd{board: b, c: c, j: j}
	for i := range j.Clients {
		p, err := c.open(settings{j.Addrs, j.Callers, j.TTL, j.Pool})
		if err != nil {
			w.close()
			return nil, err
		}
		w.clients = append(w.clients, p)
		for k := range j.Callers {
			name := j.Resource
			if j.Own {
				name = fmt.Sprintf("%s:%d:%d:%d", name, j.Process, i, k)
			}
			c := newCaller(j.lock(p, name, len(w.callers)), j)
			c.number = int64(j.Process)<<32 | int64(len(w.callers))
			w.callers = append(w.callers, c)
		}
	}
	if wr, ok := w.clients[0].(writing); ok && j.Writes > 0 && j.Process == 0 {
		w.writer = newCaller(wr.writer(j.Resource), job{})
	}
	return w, w.warm()
}

// writing is a client of readers that can also write.
type writing interface{ writer(resource string) lock }

// write takes a turn of the writer each time that the pause has passed.
func (w *crowd) write(waiting, after context.Context, c *caller) error {
	each := time.NewTicker(w.j.Writes)
	defer each.Stop()
	for w.phase.Load() != ended {
		select {
		case <-each.C:
		case <-waiting.Done():
			return nil
		}
		from := time.Now()
		if err := c.l.Lock(waiting); err != nil {
			if waiting.Err() != nil {
				return nil
			}
			return fmt.Errorf("lock: %w", err)
		}
		if w.phase.Load() == counting {
			_ = c.waits.RecordValue(int64(time.Since(from))) // in range
		}
		if err := c.l.Unlock(after); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
	}
	return nil
}

// lock returns the lock of a caller of this worker.
func (j job) lock(p client, name string, caller int) lock {
	if r, ok := p.(ring); ok {
		return r.member(name, j.First+caller, j.All)
	}
	return roundRobinOf(p, name, j.Each)
}

// overlaps reports whether callers may hold their locks at the same time: then nothing is measured of hand-offs.
func (j job) overlaps() bool { return j.Own || j.Readers }

// warm opens the connection of every caller and loads the scripts. Each caller uses
// its own resource.
func (w *crowd) warm() error {
	errs := make([]error, len(w.callers))
	var wg sync.WaitGroup
	for i := range w.callers {
		p := w.clients[i/w.j.Callers]
		wg.Go(func() {
			name := fmt.Sprintf("%s:warm:%d:%d", w.j.Resource, w.j.Process, i)
			ctx := context.Background()
			if s, ok := p.(provider); ok {
				errs[i] = s.provide(ctx, name)
			}
			l := p.lock(name)
			for range 3 {
				if errs[i] == nil {
					errs[i] = errors.Join(l.Lock(ctx), l.Unlock(ctx))
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// provider is a client that must create a resource before its first use.
type provider interface {
	provide(ctx context.Context, resource string) error
}

func (w *crowd) run(ctx context.Context, win window) (*report, error) {
	waiting, stopWaiting := context.WithCancel(ctx)
	defer stopWaiting()
	after, cancel := context.WithCancel(ctx)
	defer cancel()
	if w.c.background && w.j.overlaps() && w.j.Writes == 0 {
		waiting, after = ctx, ctx
	}
	var wg sync.WaitGroup
	for _, c := range w.callers {
		wg.Go(func() { c.err = w.takeTurns(waiting, after, c) })
	}
	if w.writer != nil {
		wg.Go(func() { w.writer.err = w.write(waiting, after, w.writer) })
	}
	sleepUntil(win.From)
	w.phase.Store(counting)
	before := usageNow()
	sleepUntil(win.From.Add(win.Until.Sub(win.From) / 2))
	halfway := runtime.NumGoroutine()
	sleepUntil(win.Until)
	used := usageNow().minus(before)
	used.Gained = used.Goroutines - halfway
	w.phase.Store(ended)
	stopWaiting()
	wg.Wait()
	var errs []error
	for _, c := range w.callers {
		errs = append(errs, c.err)
	}
	r := reportOf(w.callers, used)
	if w.writer != nil {
		errs, r.Writes = append(errs, w.writer.err), exported(w.writer.waits)
	}
	return r, errors.Join(errs...)
}

// takeTurns runs until the phase or the wait ends.
func (w *crowd) takeTurns(waiting, after context.Context, c *caller) error {
	for w.phase.Load() != ended {
		if !w.j.overlaps() {
			w.board.waiting.Add(1)
		}
		asked := time.Now()
		err := c.l.Lock(waiting)
		granted := time.Now()
		if !w.j.overlaps() {
			w.board.waiting.Add(-1)
		}
		wait := granted.Sub(asked)
		if w.phase.Load() != ramping {
			c.longest = max(c.longest, wait)
		}
		if err != nil {
			if waiting.Err() != nil {
				return nil // the end of the slice; the wait is recorded above
			}
			return fmt.Errorf("lock: %w", err)
		}
		gap, handOff := w.critical(c)
		if err := c.l.Unlock(after); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
		pair := time.Since(asked)
		if w.phase.Load() == counting {
			c.note(wait, gap, handOff)
		}
		if c.pairs != nil && w.phase.Load() != ramping { // includes a pair that ends after the window
			_ = c.pairs.RecordValue(min(int64(pair), longestTime))
		}
		if w.j.Think > 0 {
			pause(waiting, rand.N(w.j.Think))
		}
	}
	return nil
}

// critical is the critical section of a caller.
func (w *crowd) critical(c *caller) (gap int64, handOff bool) {
	if w.j.overlaps() {
		if w.j.Hold > 0 {
			time.Sleep(w.j.Hold)
		}
		return 0, false
	}
	gap, handOff = w.board.enter(c.number)
	if w.j.Hold > 0 {
		start := time.Now()
		time.Sleep(w.j.Hold)
		if w.phase.Load() == counting {
			c.held += time.Since(start)
		}
	}
	w.board.leave()
	return gap, handOff
}

func (c *caller) note(wait time.Duration, gap int64, handOff bool) {
	c.turns++
	if handOff {
		c.passed++
	}
	_ = c.waits.RecordValue(min(int64(wait), longestTime)) // in range
	if c.gaps != nil && gap > 0 {
		_ = c.gaps.RecordValue(min(gap, longestTime))
	}
}

func (w *crowd) close() {
	for _, p := range w.clients {
		p.close()
	}
}

func sleepUntil(t time.Time) { time.Sleep(time.Until(t)) }

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
