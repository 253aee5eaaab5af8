package memory_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

func request(name, id string) engine.Request {
	return engine.Request{
		Resource: engine.Resource{Prefix: "test", Name: name},
		ID:       id, Client: &engine.Client{ID: engine.ClientOf(id), Name: "svc", Host: "h", PID: 1},
		Kind: engine.KindMutex, Capacity: 1, Weight: 1, TTL: 10 * time.Second, Queue: true,
	}
}

// Time comes from the bubble: a lease ends at its TTL, to the microsecond.
func TestVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, ctx := memory.New(), t.Context()
		a, err := e.Acquire(ctx, request("r", "a.1"))
		if err != nil || a.Status != engine.Granted || a.TTL != 10*time.Second {
			t.Fatalf("got %+v, %v", a, err)
		}
		time.Sleep(10*time.Second - time.Microsecond) // virtual
		r := request("r", "b.1")
		r.Queue = false
		b, err := e.Acquire(ctx, r)
		if err != nil || b.Status != engine.Busy || b.Next != time.Microsecond || b.Holder.ID != "a.1" {
			t.Fatalf("a microsecond before the deadline: %+v, %v", b, err)
		}
		time.Sleep(time.Microsecond)
		b, err = e.Acquire(ctx, r)
		if err != nil || b.Status != engine.Granted || b.Token <= a.Token {
			t.Fatalf("at the deadline: %+v, %v", b, err)
		}
		errs := e.Renew(ctx, []engine.Renewal{{Resource: r.Resource, Held: engine.Held{ID: "a.1", Token: a.Token}, TTL: time.Second}})
		if lost, ok := errors.AsType[*engine.NotHeldError](errs[0]); !ok || lost.Cause != engine.CauseTaken {
			t.Fatalf("renewal of the lost lease: %v", errs[0])
		}
	})
}

// Resources that have not been used for the retention are removed, with their dead holders.
func TestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		for i := range 20_000 {
			if _, err := e.Acquire(t.Context(), request(strconv.Itoa(i), "a."+strconv.Itoa(i))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // virtual
		}
		// A resource is kept for its TTL and the retention: 610 seconds.
		if n := e.Kept(); n > 2*610+64+1 {
			t.Errorf("%d resources are kept", n)
		}
	})
}

// One resource that is used by more and more parties keeps the clients of the live ones only.
func TestClientsAreBounded(t *testing.T) {
	e := memory.New()
	first := request("r", "a.0")
	first.Kind, first.Capacity = engine.KindSemaphore, 2
	if _, err := e.Acquire(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		r := first
		r.ID = "b." + strconv.Itoa(i)
		a, err := e.Acquire(t.Context(), r)
		if err != nil || a.Status != engine.Granted {
			t.Fatalf("got %+v, %v", a, err)
		}
		if err := e.Release(t.Context(), engine.Release{Resource: r.Resource, Held: engine.Held{ID: r.ID, Token: a.Token}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := e.KeptClients(first.Resource); n > 20 {
		t.Errorf("%d clients are kept", n)
	}
	s, err := e.Snapshot(t.Context(), first.Resource)
	if err != nil || len(s.Holders) != 1 || s.Holders[0].Client.Name != "svc" {
		t.Errorf("got %+v, %v", s, err)
	}
}

// Close waits for a running deliver, and deliver is not called again.
func TestCloseWaitsForDeliver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, ctx := memory.New(), context.Background()
		entered, leave := make(chan struct{}), make(chan struct{})
		calls := 0
		l, err := e.Listen(ctx, "test", "b", func(engine.Wakeup) {
			calls++
			close(entered)
			<-leave
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"a.1", "b.1", "b.2"} {
			if _, err := e.Acquire(ctx, request("r", id)); err != nil {
				t.Fatal(err)
			}
		}
		res := request("r", "").Resource
		go e.Break(ctx, res, engine.Break{ID: "a.1", Force: true}) // grants b.1
		<-entered
		// A second wake-up must not wait for the first one's delivery.
		if err := e.Break(ctx, res, engine.Break{ID: "b.1", Force: true}); err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Fatal("Close returned while deliver was running")
		default:
		}
		close(leave)
		<-closed
		if calls != 1 {
			t.Errorf("deliver was called %d times", calls)
		}
	})
}
