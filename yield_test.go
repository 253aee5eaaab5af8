package holdfast

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// strict releases the lease of a process that yields and refuses its new request, as a
// store does if the resource is of another kind by then.
type strict struct {
	engine.Engine
	on bool
}

func (s *strict) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	if s.on && r.Yields.ID != "" {
		_ = s.Engine.Release(ctx, engine.Release{Resource: r.Resource, Held: r.Yields})
		return engine.Answer{}, engine.ErrMismatch
	}
	return s.Engine.Acquire(ctx, r)
}

func TestARefusedYieldLeavesNoInbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &strict{Engine: memory.New()}
		c, err := New(e)
		if err != nil {
			t.Fatal(err)
		}
		m := c.Mutex("x")
		lock := func() *Lease {
			l, err := m.Lock(context.Background())
			if err != nil {
				t.Error(err)
			}
			return l
		}
		c.wakeups.listenSoon()
		synctest.Wait()
		e.on = true
		for range 5 {
			l, next := lock(), make(chan *Lease, 1)
			go func() { next <- lock() }()
			time.Sleep(time.Second) // longer than a slice
			_ = l.Release(context.Background())
			_ = (<-next).Release(context.Background())
		}
		c.wakeups.mu.Lock()
		left := len(c.wakeups.waiting)
		c.wakeups.mu.Unlock()
		if left > 0 {
			t.Errorf("nobody waits, and %d inboxes are left", left)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
