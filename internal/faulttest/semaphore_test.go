package faulttest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// The capacity is never exceeded, and no part of it is lost.
func TestSemaphoreUnderFaults(t *testing.T) {
	tk := task{Resource: "pool", TTL: 300 * time.Millisecond, Callers: 3, Capacity: 7, Weights: []int{1, 1, 2, 3, 7}}
	shareUnderFaults(t, tk, tk.Capacity)
}

func TestManyWaitersOfASemaphoreDrain(t *testing.T) {
	serveMany(t, task{Resource: "pool", TTL: 15 * time.Second, Capacity: 5, Weights: []int{5, 1, 2, 1, 3}}, 500)
}

// What holders had that were killed comes back within their TTL.
func TestUnitsOfKilledHoldersReturn(t *testing.T) {
	w := newFixture(t)
	const ttl = time.Second
	tk := task{Resource: "pool", TTL: ttl, Capacity: 7}
	var holders []*process
	for _, weight := range []int{1, 2, 4} {
		tk.Weights = []int{weight}
		p := w.start("hold a share", tk)
		p.expect("held")
		holders = append(holders, p)
	}
	c := w.client()
	for _, p := range holders {
		p.kill()
	}
	start := time.Now()
	l, err := c.Semaphore("pool", 7).Acquire(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	w.within(start, ttl+200*time.Millisecond, "to have all of it")
	w.release(l)
}

// Light requests that loop do not pass a heavy one.
func TestHeavyRequestIsNotStarved(t *testing.T) {
	w := newFixture(t)
	const hold = 150 * time.Millisecond
	looping, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	for i := range 8 {
		s := w.client().Semaphore("pool", 4)
		wg.Go(func() {
			w.elapse(time.Duration(i) * hold / 8)
			for looping.Err() == nil {
				err := s.Do(looping, 1, func(context.Context) error { w.elapse(hold); return nil })
				if err != nil && !errors.Is(err, holdfast.ErrNotAcquired) {
					t.Errorf("a light one: %v", err)
					return
				}
			}
		})
	}
	s := w.client().Semaphore("pool", 4)
	for range 10 {
		w.elapse(hold * 4 / 3)
		start := time.Now()
		l, err := s.Acquire(t.Context(), 4)
		if err != nil {
			t.Fatal(err)
		}
		w.within(start, 3*hold, "the heavy request, while others hold for 150 ms,")
		w.release(l)
	}
	stop()
	wg.Wait()
}
