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

// A release that no majority confirmed is tried again. A node that had the lease and
// is left out now does not count as one that never had it.
func TestReleaseAgainWithoutANode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		nodes := [3]*faulty{{Engine: memory.New()}, {Engine: memory.New()}, {Engine: memory.New()}}
		e := quorum.New(nodes[0], nodes[1], nodes[2])
		mine := engine.Request{
			Resource: engine.Resource{Prefix: "p", Name: "r"}, ID: "mine.a", Client: &engine.Client{ID: "mine"},
			Kind: engine.KindMutex, Capacity: 1, Weight: 1, TTL: time.Minute,
		}
		acquire := func(id string) engine.Held {
			mine.ID = id
			ans, err := e.Acquire(ctx, mine)
			if err != nil || ans.Status != engine.Granted {
				t.Fatalf("%+v, %v", ans, err)
			}
			return engine.Held{ID: id, Token: ans.Token}
		}
		release := func(h engine.Held) error {
			call, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return e.Release(call, engine.Release{Resource: mine.Resource, Held: h})
		}
		nodes[2].set(dead)
		if err := release(acquire("mine.a")); err != nil {
			t.Fatal(err)
		}
		held := acquire("mine.b") // the third is left out
		nodes[2].set(healthy)
		nodes[0].set(hung)
		nodes[1].set(hung)
		if err := release(held); !errors.Is(err, engine.ErrUnavailable) {
			t.Fatalf("no node has confirmed, and Release said %v", err)
		}
		nodes[1].set(healthy)
		time.Sleep(3 * time.Second)
		if err := release(held); err != nil {
			t.Errorf("the release again: %v", err)
		}
		nodes[0].set(healthy)
		e.Leave("mine")
		time.Sleep(time.Minute) // what is under way ends by its own bounds
	})
}
