package cas_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// A store that is slow for a moment gets no two changes of a beat in one call.
func TestOneChangeOfABeatInACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := castest.NewMemory()
		s := &hooked{DocumentStore: m}
		slow := false
		s.swap = func(ctx context.Context, c []cas.Change) ([]cas.Outcome, error) {
			seen := make(map[cas.Key]bool)
			for _, is := range c {
				if seen[is.Key] {
					t.Errorf("two changes of %v in one call", is.Key)
				}
				seen[is.Key] = true
			}
			if slow {
				time.Sleep(3 * time.Second)
			}
			return m.Swap(ctx, c)
		}
		e := cas.New(s, 0)
		b := request("b.1", time.Minute, true)
		acquire(t, cas.New(m, 0), request("a.1", time.Minute, false), engine.Granted)
		acquire(t, e, b, engine.Queued)
		slow = true
		for i := range 4 {
			r := request(fmt.Sprintf("x%d.1", i), time.Minute, false)
			r.Resource.Name = r.ID
			go func() { _, _ = e.Acquire(t.Context(), r) }()
		}
		for range 3 {
			time.Sleep(950 * time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, _ = e.Acquire(ctx, b)
			cancel()
		}
		time.Sleep(20 * time.Second)
	})
}

// One poll without an answer does not make a waiter look dead.
func TestOneUnansweredPollIsNoDeath(t *testing.T) {
	for _, timed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var m cas.DocumentStore = castest.NewMemory()
			if timed {
				m = newHookedClock()
			}
			holder, waiter := cas.New(m, 0), cas.New(m, 0)
			a, b, c := request("a.1", time.Minute, true), request("b.1", time.Minute, true), request("c.1", time.Minute, true)
			held := acquire(t, holder, a, engine.Granted)
			acquire(t, waiter, b, engine.Queued)
			acquire(t, holder, c, engine.Queued)
			for range 3 {
				time.Sleep(800 * time.Millisecond)
				acquire(t, waiter, b, engine.Queued)
				acquire(t, holder, c, engine.Queued)
			}
			time.Sleep(time.Second) // the next poll has no answer
			time.Sleep(1500*time.Millisecond - 10*time.Millisecond)
			acquire(t, holder, c, engine.Queued)
			release(t, holder, a, held.Token)
			acquire(t, waiter, b, engine.Granted)
		})
	}
}

// After an outage of the store for longer than WaiterLife, the first waiter of a client to poll does not drop the others.
func TestOutageKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := castest.NewMemory()
		holder, one, two := cas.New(m, 0), cas.New(m, 0), cas.New(m, 0)
		a := request("a.1", time.Minute, true)
		acquire(t, holder, a, engine.Granted)
		line := []engine.Request{request("b.1", time.Minute, true), request("b.2", time.Minute, true), request("c.1", time.Minute, true)}
		engines := []*cas.Engine{one, one, two}
		for range 3 {
			for i, r := range line {
				acquire(t, engines[i], r, engine.Queued)
			}
			time.Sleep(time.Second)
		}
		time.Sleep(4 * time.Second) // the store is away
		for i := range line {
			i = len(line) - 1 - i
			acquire(t, engines[i], line[i], engine.Queued)
			time.Sleep(10 * time.Millisecond)
		}
		for i, r := range line {
			if a := acquire(t, engines[i], r, engine.Queued); a.Position != i {
				t.Errorf("%s is at %d after the outage, was at %d", r.ID, a.Position, i)
			}
		}
	})
}
