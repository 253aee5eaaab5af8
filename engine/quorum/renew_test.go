package quorum_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// A semaphore needs every node. While one hangs, its renewal cannot succeed, but does not delay
// that of a mutex in the same batch.
func TestSemaphoreDoesNotHoldUpRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		for _, n := range c.nodes {
			n.slow(100*time.Microsecond, 100*time.Microsecond)
		}
		mutex := c.mustAcquire(t, "mine.a")
		r := mutexRequest("mine.b")
		r.Resource.Name, r.Kind, r.Capacity = "slots", engine.KindSemaphore, 3
		a, err := c.Acquire(t.Context(), r)
		if err != nil || a.Status != engine.Granted {
			t.Fatal(a, err)
		}
		batch := []engine.Renewal{
			{Resource: stock, Held: mutex, TTL: long},
			{Resource: r.Resource, Held: engine.Held{ID: r.ID, Token: a.Token}, TTL: long},
		}
		synctest.Wait()
		c.nodes[1].set(hung)
		_ = c.Renew(t.Context(), batch)
		time.Sleep(suspect)
		for range 5 {
			start := time.Now()
			errs := c.Renew(t.Context(), batch)
			if errs[0] != nil || !errors.Is(errs[1], engine.ErrUnavailable) {
				t.Errorf("one of three nodes hangs: mutex %v, semaphore %v", errs[0], errs[1])
			}
			if took := time.Since(start); took > 20*time.Millisecond {
				t.Errorf("the renewals took %v", took)
			}
			time.Sleep(5 * time.Second)
		}
		c.nodes[1].set(healthy)
		for _, err := range c.Renew(t.Context(), batch) {
			if err != nil {
				t.Errorf("all nodes answer: %v", err)
			}
		}
		c.Leave("mine")
		<-time.After(time.Minute)
	})
}
