package quorum_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// A resource is of another kind if a majority says so. A minority that does has what
// somebody is giving back at that moment, or never had: that passes, also where a lease
// needs all nodes.
func TestAnotherKindOnSomeNodes(t *testing.T) {
	for _, size := range []int{3, 4, 5} {
		for _, capacity := range []int{1, 2, 3, 100} {
			for occupied := range 1 << size {
				t.Run(fmt.Sprintf("%d nodes, capacity %d, %b", size, capacity, occupied), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { anotherKind(t, size, capacity, occupied) })
				})
			}
		}
	}
}

func anotherKind(t *testing.T, size, capacity, occupied int) {
	c := newCluster(size)
	old := asks("other.1")
	old.Kind, old.Capacity = engine.KindRW, 1000
	busy := 0
	for i, n := range c.nodes {
		if occupied&(1<<i) == 0 {
			continue
		}
		busy++
		a, err := n.Engine.Acquire(t.Context(), old)
		if err != nil || a.Status != engine.Granted {
			t.Fatalf("got %+v, %v", a, err)
		}
		time.AfterFunc(30*time.Millisecond, func() {
			if err := n.Engine.Release(t.Context(), engine.Release{Resource: stock, Held: engine.Held{ID: old.ID, Token: a.Token}}); err != nil {
				t.Error(err)
			}
		})
	}
	r := asks("a.1")
	r.Kind, r.Capacity = engine.KindSemaphore, capacity
	start := time.Now()
	a, err := c.Acquire(t.Context(), r)
	switch took := time.Since(start); {
	case busy >= size/2+1:
		if !errors.Is(err, engine.ErrMismatch) || took > 0 {
			t.Errorf("got %+v, %v after %v, want ErrMismatch at once", a, err, took)
		}
	case err != nil || a.Status != engine.Granted || took > 100*time.Millisecond:
		t.Errorf("got %+v, %v after %v, want it granted", a, err, took)
	default:
		c.give(t, engine.Held{ID: r.ID, Token: a.Token})
	}
	<-time.After(time.Second) // all is given back
	c.Leave("a")
	c.nothing(t, "a")
}
