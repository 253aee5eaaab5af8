package faulttest

import (
	"context"
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
	l := w.lock(units(c.Semaphore("pool", 7), 7))
	w.within(start, ttl+200*time.Millisecond, "to have all of it")
	w.release(l)
}

func TestHeavyRequestIsNotStarved(t *testing.T) {
	notStarved(t, func(c *holdfast.Client) (doFunc, lockFunc) {
		s := c.Semaphore("pool", 4)
		light := func(ctx context.Context, fn func(context.Context) error) error { return s.Do(ctx, 1, fn) }
		return light, units(s, 4)
	})
}
