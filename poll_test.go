package holdfast_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// Of every two requests of a waiter one goes unanswered, on a network that is slow
// besides. It keeps its place, whether wake-ups come in or not.
func TestUnansweredPollsCostNoPlace(t *testing.T) {
	for name, spoil := range map[string]func(e *faulty){
		"wake-ups":     func(*faulty) {},
		"no wake-ups":  func(e *faulty) { e.OnListen = hang },
		"listen fails": func(e *faulty) { e.OnListen = down },
	} {
		for _, way := range []time.Duration{0, 100 * time.Millisecond, 400 * time.Millisecond} {
			t.Run(fmt.Sprint(name, " ", way), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := newFaulty()
					spoil(e)
					pollsLost(t, e, way)
				})
			})
		}
	}
}

func pollsLost(t *testing.T, e *faulty, way time.Duration) {
	holder := mustLock(t, newClient(t, e.Engine).Mutex("x").Lock, context.Background())
	var polls, lost atomic.Int32
	e.Set(func() {
		e.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
			if polls.Add(1)%2 == 0 {
				lost.Add(1)
				return engine.Answer{}, hang(ctx)
			}
			<-time.After(way)
			ans, err := e.Engine.Acquire(ctx, r)
			<-time.After(way)
			return ans, err
		}
	})
	waiter := lockSoon(context.Background(), newClient(t, e).Mutex("x").Lock)
	time.Sleep(time.Second)
	behind := lockSoon(context.Background(), newClient(t, e.Engine).Mutex("x").Lock)
	time.Sleep(time.Second)
	front := look(t, e.Engine, "x").Waiters[0].ID
	for lost.Load() < 166 {
		time.Sleep(20 * time.Millisecond)
		if s := look(t, e.Engine, "x"); len(s.Waiters) != 2 || s.Waiters[0].ID != front {
			t.Fatalf("with %d requests lost the front is not %s: %+v", lost.Load(), front, s.Waiters)
		}
	}
	e.Set(func() { e.OnAcquire = nil })
	mustRelease(t, holder)
	r := <-waiter
	if r.err != nil || r.lease.HolderID() != front {
		t.Fatalf("the front was not served first: %v", r.err)
	}
	mustRelease(t, r.lease)
	mustRelease(t, (<-behind).lease)
	synctest.Wait()
	wantEmpty(t, e.Engine, "x")
}
