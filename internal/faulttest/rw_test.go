package faulttest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// No reader is in with a writer, and no two writers are.
func TestReadersAndWritersUnderFaults(t *testing.T) {
	tk := task{Resource: "table", TTL: 300 * time.Millisecond, Callers: 3, Weights: []int{1, 1, 1, writerWeight}}
	shareUnderFaults(t, tk, writerWeight)
}

func TestManyReadersAndWritersDrain(t *testing.T) {
	serveMany(t, task{Resource: "table", TTL: 15 * time.Second, Strict: true, Weights: []int{writerWeight, 1, 1, 1, 1}}, 500)
}

// Readers that were killed vanish by their own TTL, although another one renews
// all along.
func TestKilledReadersVanish(t *testing.T) {
	w := newFixture(t)
	const ttl = time.Second
	tk := task{Resource: "table", TTL: ttl, Weights: []int{1}}
	var readers []*process
	for range 3 {
		p := w.start("hold a share", tk)
		p.expect("held")
		readers = append(readers, p)
	}
	c := w.client()
	start := time.Now()
	readers[0].kill()
	readers[1].kill()
	holders := func(n int) func() bool {
		return func() bool {
			s, err := c.Snapshot(t.Context(), "table")
			return err == nil && len(s.Holders) == n
		}
	}
	w.eventually("one reader is left", holders(1))
	w.within(start, ttl+200*time.Millisecond, "the end of the dead readers")
	w.elapse(2 * ttl)
	if !holders(1)() {
		t.Error("the living reader is gone")
	}
	readers[2].finish()
	l := w.lock(c.RWMutex("table").TryLock)
	w.release(l)
}

func TestWriterIsNotStarved(t *testing.T) {
	notStarved(t, func(c *holdfast.Client) (doFunc, lockFunc) {
		rw := c.RWMutex("table")
		return rw.RDo, rw.Lock
	})
}

type doFunc = func(context.Context, func(context.Context) error) error

// notStarved checks that a request for the whole capacity waits for no longer than three times what
// eight callers hold for, which acquire and release light leases in loops.
func notStarved(t *testing.T, methods func(c *holdfast.Client) (light doFunc, heavy lockFunc)) {
	w := newFixture(t)
	const hold = 150 * time.Millisecond
	looping, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	for i := range 8 {
		light, _ := methods(w.client())
		wg.Go(func() {
			w.elapse(time.Duration(i) * hold / 8) // they never all pause at once
			for looping.Err() == nil {
				err := light(looping, func(context.Context) error { w.elapse(hold); return nil })
				if err != nil && looping.Err() == nil {
					t.Errorf("a light request: %v", err)
					return
				}
			}
		})
	}
	_, heavy := methods(w.client())
	for range 10 {
		w.elapse(hold * 4 / 3)
		start := time.Now()
		l := w.lock(heavy)
		w.within(start, 3*hold, "the heavy request, while others hold for 150 ms,")
		w.release(l)
	}
	stop()
	wg.Wait()
}

// A demotion wakes the readers that wait at once: their next poll would come after a
// second.
func TestDemoteWakesParkedReaders(t *testing.T) {
	w := newFixture(t)
	own, c := w.client(), w.client()
	l := w.lock(own.RWMutex("table").Lock)
	got := make(chan result, 5)
	for range cap(got) {
		go func() {
			l, err := c.RWMutex("table", holdfast.WithoutTenure()).RLock(t.Context())
			got <- result{l, err, time.Now()}
		}()
	}
	w.waiting(c, "table", cap(got))
	start := time.Now()
	if err := l.Demote(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range cap(got) {
		r := w.granted(got)
		w.stalls.WithinAt(t, start, r.at, 300*time.Millisecond, "a reader")
		defer w.release(r.lease)
	}
	if _, err := c.RWMutex("table").TryLock(t.Context()); !errors.Is(err, holdfast.ErrNotAcquired) {
		t.Errorf("a writer among readers: %v", err)
	}
	if _, err := own.RWMutex("table").Lock(l.Context()); !errors.Is(err, holdfast.ErrDeadlock) {
		t.Errorf("a reader that wants to write again: %v", err)
	}
	w.release(l)
}
