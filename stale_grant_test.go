package holdfast_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// forgetful is a store that can lose its data, and whose wake-ups can be held up
// on their way.
type forgetful struct {
	engine.Engine
	empty   atomic.Pointer[memory.Engine] // answers from when it is set
	holdsUp atomic.Bool
	heldUp  chan func() // delivers
}

func (f *forgetful) now() engine.Engine {
	if e := f.empty.Load(); e != nil {
		return e
	}
	return f.Engine
}

func (f *forgetful) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	return f.now().Acquire(ctx, r)
}

func (f *forgetful) Release(ctx context.Context, r engine.Release) error {
	return f.now().Release(ctx, r)
}

func (f *forgetful) Renew(ctx context.Context, batch []engine.Renewal) []error {
	return f.now().Renew(ctx, batch)
}

func (f *forgetful) Listen(ctx context.Context, prefix, client string, deliver func(engine.Wakeup)) (engine.Listener, error) {
	return f.Engine.Listen(ctx, prefix, client, func(w engine.Wakeup) {
		if f.holdsUp.Load() {
			f.heldUp <- func() { deliver(w) }
			return
		}
		deliver(w)
	})
}

// A grant that was in transit when the store lost its data is ignored: a later poll of
// the waiter was answered without the grant, and the store has granted the lease to
// another.
func TestGrantFromBeforeTheStoreLostItsData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &forgetful{Engine: memory.New(), heldUp: make(chan func(), 1)}
		first := mustLock(t, newClient(t, store).Mutex("x").Lock, context.Background())
		waiter := lockSoon(context.Background(), newClient(t, store).Mutex("x").Lock)
		synctest.Wait()
		store.holdsUp.Store(true)
		mustRelease(t, first)
		deliver := <-store.heldUp    // the waiter was granted, and the wake-up is held up
		time.Sleep(time.Millisecond) // the store's clock is ahead of all its tokens
		store.empty.Store(memory.New())
		other := mustLock(t, newClient(t, store).Mutex("x").Lock, context.Background())
		time.Sleep(1500 * time.Millisecond) // the waiter has polled, and waits
		deliver()
		synctest.Wait()
		select {
		case r := <-waiter:
			t.Fatalf("granted by a store that forgot it, beside a holder: %+v", r)
		default:
		}
		mustRelease(t, other)
		r := <-waiter // by its next poll: the new store has no waiter to wake
		if r.err != nil {
			t.Fatal(r.err)
		}
		mustRelease(t, r.lease)
	})
}
