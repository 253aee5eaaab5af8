package quorum_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// A node that refused the lease says yes to its release, as to one that was done
// before, but marks nothing: so it does not count for the mark. The node that had
// the lease and does not answer is needed.
func TestANodeThatRefusedDoesNotMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		res := engine.Resource{Prefix: "p", Name: "r"}
		other := func(id string) engine.Request {
			return engine.Request{Resource: res, ID: id, Client: &engine.Client{ID: "other"}, Kind: engine.KindJob, Capacity: 1, Weight: 1, TTL: time.Minute}
		}
		first := memory.New()
		if _, err := first.Acquire(ctx, other("other.a")); err != nil {
			t.Fatal(err)
		}
		second := &faulty{Engine: memory.New()}
		e := quorum.New(first, second, memory.New())
		time.Sleep(time.Second)
		mine := other("mine.a")
		mine.Client = &engine.Client{ID: "mine"}
		ans, err := e.Acquire(ctx, mine)
		if err != nil || ans.Status != engine.Granted {
			t.Fatalf("%+v, %v", ans, err)
		}
		time.Sleep(time.Second) // the token of the next lease there is above mine
		if err := first.Release(ctx, engine.Release{Resource: res, Held: engine.Held{ID: "other.a"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := first.Acquire(ctx, other("other.b")); err != nil {
			t.Fatal(err)
		}
		second.set(hung)
		call, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err = e.Release(call, engine.Release{Resource: res, Held: engine.Held{ID: "mine.a", Token: ans.Token}, Mark: time.Hour})
		if !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("the mark is on one node of three, and Release said %v", err)
		}
		second.set(healthy)
		e.Leave("mine")
		time.Sleep(time.Minute) // what is under way ends by its own bounds
	})
}

// A node that was away at the grant says yes as well, if it has given other leases
// since, and marks nothing.
func TestANodeThatWasAwayDoesNotMark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		res := engine.Resource{Prefix: "p", Name: "r"}
		request := func(id, client string) engine.Request {
			return engine.Request{Resource: res, ID: id, Client: &engine.Client{ID: client}, Kind: engine.KindJob, Capacity: 1, Weight: 1, TTL: time.Minute}
		}
		store := memory.New()
		first, second := &faulty{Engine: store}, &faulty{Engine: memory.New()}
		other := func(id string) {
			if ans, err := store.Acquire(ctx, request(id, "other")); err != nil || ans.Status != engine.Granted {
				t.Fatalf("%+v, %v", ans, err)
			}
		}
		e := quorum.New(first, second, memory.New())
		other("other.a")
		if err := store.Release(ctx, engine.Release{Resource: res, Held: engine.Held{ID: "other.a"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		first.set(dead)
		before, err := e.Acquire(ctx, request("mine.a", "mine"))
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Release(ctx, engine.Release{Resource: res, Held: engine.Held{ID: "mine.a", Token: before.Token}}); err != nil {
			t.Fatal(err)
		}
		ans, err := e.Acquire(ctx, request("mine.b", "mine")) // the first is left out
		if err != nil || ans.Status != engine.Granted {
			t.Fatalf("%+v, %v", ans, err)
		}
		time.Sleep(time.Second)
		first.set(healthy)
		other("other.b")
		second.set(hung)
		time.Sleep(5 * time.Second) // the first is asked again
		call, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err = e.Release(call, engine.Release{Resource: res, Held: engine.Held{ID: "mine.b", Token: ans.Token}, Mark: time.Hour})
		if !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("the mark is on one node of three, and Release said %v", err)
		}
		second.set(healthy)
		e.Leave("mine")
		time.Sleep(time.Minute) // what is under way ends by its own bounds
	})
}
