package holdfast_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A waiter behind a crowd of dead ones enters within the claim window of the first of them and a poll, however many
// there are and whenever they died.
func TestWaiterBehindADeadCrowd(t *testing.T) {
	const poll = engine.PollInterval + engine.PollInterval/10
	for name, before := range map[string]struct {
		diedBefore time.Duration // the release
		most       time.Duration
	}{
		"died at the release":      {0, engine.ClaimWindow + poll},
		"died long before":         {time.Minute, poll},
		"died a waiter's life ago": {engine.WaiterLife, poll},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := memory.New()
				held := mustLock(t, newClient(t, e).Mutex("stock").Lock, context.Background())
				held.Context()
				r := engine.Request{Resource: engine.Resource{Prefix: "holdfast", Name: "stock"}, Kind: engine.KindMutex, Capacity: 1, Weight: 1,
					TTL: 15 * time.Second, Queue: true}
				for i := range redistest.Scale(2000, 100_000) {
					r.ID = fmt.Sprintf("dead%d.x", i)
					r.Client = &engine.Client{ID: engine.ClientOf(r.ID)}
					if a, err := e.Acquire(t.Context(), r); err != nil || a.Status != engine.Queued {
						t.Fatalf("%s: %+v, %v", r.ID, a, err)
					}
				}
				var took time.Duration
				var released time.Time
				var wg sync.WaitGroup
				m := newClient(t, e).Mutex("stock")
				wg.Go(func() {
					l, err := m.Lock(t.Context())
					if took = time.Since(released); err != nil {
						t.Error(err)
						return
					}
					mustRelease(t, l)
				})
				synctest.Wait()
				time.Sleep(before.diedBefore)
				released = time.Now()
				mustRelease(t, held)
				wg.Wait()
				if t.Logf("it entered after %v", took); took > before.most {
					t.Errorf("it entered %v after the release, want %v at most", took, before.most)
				}
			})
		})
	}
}
