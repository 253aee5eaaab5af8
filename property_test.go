package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// step is one line of a random program. A program runs against several clients
// of one store, each behind a network of its own.
type step struct {
	Do     string
	Client int
	Opts   string
	Wait   time.Duration // of a lock, before it gives up
	Hold   time.Duration // of a lease, before it is given back
	Sleep  time.Duration // after the step
}

func drawStep(t *rapid.T) step {
	millis := func(name string, most int) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Millisecond
	}
	return step{
		Do: rapid.SampledFrom([]string{"lock", "lock", "lock", "lock", "try", "break holder", "break waiter",
			"down", "hang", "slow", "slow", "lose replies", "drop wake-ups", "heal"}).Draw(t, "do"),
		Client: rapid.IntRange(0, 2).Draw(t, "client"),
		Opts:   rapid.SampledFrom([]string{"", "", "short", "no tenure", "no renewal"}).Draw(t, "opts"),
		Wait:   millis("wait", 8000),
		Hold:   millis("hold", 3000),
		Sleep:  rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 30 * time.Millisecond, time.Second}).Draw(t, "sleep"),
	}
}

func (s step) options() []holdfast.LockOption {
	switch s.Opts {
	case "short":
		return []holdfast.LockOption{holdfast.WithTTL(300 * time.Millisecond)}
	case "no tenure":
		return []holdfast.LockOption{holdfast.WithTTL(2 * time.Second), holdfast.WithoutTenure()}
	case "no renewal":
		return []holdfast.LockOption{holdfast.WithTTL(time.Second), holdfast.WithoutRenewal()}
	}
	return []holdfast.LockOption{holdfast.WithTTL(2 * time.Second)}
}

// world runs a program and watches the promises.
type world struct {
	store   *memory.Engine
	nets    []*faulty
	clients []*holdfast.Client
	actors  sync.WaitGroup

	mu     sync.Mutex
	open   []*holdfast.Lease // held by an actor that has not begun to release it
	broken []string          // IDs that an operator ended: fencing covers those
	top    uint64
	faults []string
}

func (w *world) fail(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

// granted: nobody else may believe to hold the resource now. A lease that an
// operator broke is left out: until its client hears of it, it may even pass
// from hand to hand there, with tokens that a fence refuses.
func (w *world) granted(l *holdfast.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Contains(w.broken, l.HolderID()) {
		return
	}
	if l.Token() <= w.top {
		w.fail("token %d after %d", l.Token(), w.top)
	}
	w.top = max(w.top, l.Token())
	for _, other := range w.open {
		if other.Err() == nil && l.Err() == nil && !slices.Contains(w.broken, other.HolderID()) {
			w.fail("two open trust windows: %s (token %d) and %s (token %d)", other.HolderID(), other.Token(), l.HolderID(), l.Token())
		}
	}
	w.open = append(w.open, l)
}

func (w *world) leaves(l *holdfast.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = slices.DeleteFunc(w.open, func(o *holdfast.Lease) bool { return o == l })
}

// act is one caller: it locks, holds and releases.
func (w *world) act(s step) {
	m := w.clients[s.Client].Mutex("x", s.options()...)
	ctx, cancel := context.WithTimeout(context.Background(), s.Wait)
	defer cancel()
	lock := m.Lock
	if s.Do == "try" {
		lock = m.TryLock
	}
	start := time.Now()
	l, err := lock(ctx)
	if late := time.Since(start) - s.Wait; late > 250*time.Millisecond {
		w.mu.Lock()
		w.fail("%s returned %v after its ctx ended", s.Do, late)
		w.mu.Unlock()
	}
	if err != nil {
		if !errors.Is(err, holdfast.ErrNotAcquired) {
			w.mu.Lock()
			w.fail("%s: %v", s.Do, err)
			w.mu.Unlock()
		}
		return
	}
	w.granted(l)
	select {
	case <-time.After(s.Hold):
	case <-l.Context().Done():
	}
	w.leaves(l)
	_ = l.Release(ctx) // lost, unreachable or done: all may be
}

func (w *world) breakOne(holder bool) {
	s, err := w.store.Snapshot(context.Background(), engine.Resource{Prefix: holdfast.DefaultPrefix, Name: "x"})
	if err != nil {
		return
	}
	id := ""
	if holder && len(s.Holders) > 0 {
		id = s.Holders[0].ID
	} else if !holder && len(s.Waiters) > 0 {
		id = s.Waiters[len(s.Waiters)/2].ID
	}
	if id == "" {
		return
	}
	w.mu.Lock()
	w.broken = append(w.broken, id)
	w.mu.Unlock()
	_ = w.store.Break(context.Background(), s.Resource, id)
}

func (w *world) do(s step) {
	synctest.Wait() // all callers have come to rest
	net := w.nets[s.Client]
	switch s.Do {
	case "lock", "try":
		w.actors.Go(func() { w.act(s) })
	case "break holder":
		w.breakOne(true)
	case "break waiter":
		w.breakOne(false)
	case "down":
		net.all(down)
	case "hang":
		net.all(hang)
	case "slow":
		net.slow(s.Wait/20, s.Hold/3)
	case "lose replies":
		net.loseReplies()
	case "drop wake-ups":
		net.set(func() { net.wake = func(engine.Wakeup) bool { return false } })
	case "heal":
		net.all(nil)
		net.set(func() { net.wake = nil })
	}
	time.Sleep(s.Sleep)
}

// loseReplies lets every request through and every answer get lost.
func (f *faulty) loseReplies() {
	f.set(func() {
		f.acquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
			_, _ = f.Engine.Acquire(ctx, r)
			return engine.Answer{}, down(ctx)
		}
		f.renew = func(ctx context.Context, b []engine.Renewal) []error {
			_ = f.Engine.Renew(ctx, b)
			return each(b, down(ctx))
		}
		f.release = func(ctx context.Context, r engine.Release) error {
			_ = f.Engine.Release(ctx, r)
			return down(ctx)
		}
		f.resize = func(ctx context.Context, res engine.Resource, h engine.Held, weight int) error {
			_ = f.Engine.Resize(ctx, res, h, weight)
			return down(ctx)
		}
	})
}

// slow lets requests and answers take their time.
func (f *faulty) slow(there, back time.Duration) {
	travel := func(ctx context.Context, d time.Duration) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", engine.ErrUnavailable, ctx.Err())
		}
	}
	// What has set out arrives, whether anybody still waits for the answer.
	trip := func(ctx context.Context, op func(context.Context)) error {
		done := make(chan struct{})
		go func() {
			defer close(done)
			<-time.After(there)
			op(context.WithoutCancel(ctx))
		}()
		select {
		case <-done:
			return travel(ctx, back)
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", engine.ErrUnavailable, ctx.Err())
		}
	}
	f.set(func() {
		f.acquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
			type outcome struct {
				a   engine.Answer
				err error
			}
			got := make(chan outcome, 1)
			if err := trip(ctx, func(ctx context.Context) { a, err := f.Engine.Acquire(ctx, r); got <- outcome{a, err} }); err != nil {
				return engine.Answer{}, err
			}
			o := <-got
			return o.a, o.err
		}
		f.renew = func(ctx context.Context, b []engine.Renewal) []error {
			got := make(chan []error, 1)
			if err := trip(ctx, func(ctx context.Context) { got <- f.Engine.Renew(ctx, b) }); err != nil {
				return each(b, err)
			}
			return <-got
		}
		f.release = func(ctx context.Context, r engine.Release) error {
			got := make(chan error, 1)
			if err := trip(ctx, func(ctx context.Context) { got <- f.Engine.Release(ctx, r) }); err != nil {
				return err
			}
			return <-got
		}
	})
}

// run returns what went wrong. It is called in a bubble, which also fails when a
// goroutine is left.
func run(program []step) (faults []string) {
	w := &world{store: memory.New()}
	for range 3 {
		net := newFaulty()
		net.Engine = w.store
		c, err := holdfast.New(net)
		if err != nil {
			return []string{err.Error()}
		}
		w.nets, w.clients = append(w.nets, net), append(w.clients, c)
	}
	for _, s := range program {
		w.do(s)
	}
	for i := range w.nets {
		w.do(step{Do: "heal", Client: i})
	}
	w.actors.Wait()
	for _, c := range w.clients { // everything drains: the resource is free soon
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if l, err := c.Mutex("x").Lock(ctx); err != nil {
			w.fail("at the end: %v", err)
		} else {
			w.granted(l)
			w.leaves(l)
			if err := l.Release(ctx); err != nil {
				w.fail("at the end: %v", err)
			}
		}
		cancel()
	}
	for _, c := range w.clients {
		if err := c.Close(); err != nil {
			w.fail("Close: %v", err)
		}
	}
	time.Sleep(time.Second) // what is still under way arrives
	synctest.Wait()
	s, err := w.store.Snapshot(context.Background(), engine.Resource{Prefix: holdfast.DefaultPrefix, Name: "x"})
	if err != nil || len(s.Holders)+len(s.Waiters) > 0 {
		w.fail("left in the store: %+v, %v", s, err)
	}
	return w.faults
}

func TestPromisesUnderRandomPrograms(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		program := rapid.SliceOfN(rapid.Custom(drawStep), 1, 40).Draw(rt, "program")
		var faults []string
		synctest.Test(t, func(*testing.T) { faults = run(program) })
		if len(faults) > 0 {
			rt.Fatalf("%q", faults)
		}
	})
}
