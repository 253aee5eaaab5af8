package holdfast_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// A mismatch names the kind and capacity in use, and those requested.
func TestMismatchNamesBoth(t *testing.T) {
	for name, e := range map[string]func() engine.Engine{
		"memory": func() engine.Engine { return memory.New() },
		"quorum": func() engine.Engine { return quorum.New(memory.New(), memory.New(), memory.New()) },
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { namesBoth(t, e()) }) })
	}
}

func namesBoth(t *testing.T, e engine.Engine) {
	c := newClient(t, e)
	ctx := t.Context()
	want := func(err error, inUse, wanted string) {
		t.Helper()
		wantErr(t, err, holdfast.ErrMismatch)
		if text := "in use as " + inUse + ", not as " + wanted; err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("got %q, want %q in it", err, text)
		}
	}
	pool := mustLock(t, units(c.Semaphore("pool", 3), 1), ctx)
	_, err := c.Mutex("pool").TryLock(ctx)
	want(err, "a semaphore of 3", "a mutex")
	_, err = c.Semaphore("pool", 2).Acquire(ctx, 1)
	want(err, "a semaphore of 3", "a semaphore of 2")
	_, err = c.RWMutex("pool").RLock(pool.Context())
	want(err, "a semaphore of 3", "a readers' and writers' lock")
	_, err = c.Multi([]string{"free", "pool"}).Lock(ctx)
	want(err, "a semaphore of 3", "a mutex")
	_, err = c.Election("pool").Leader(ctx)
	want(err, "a semaphore of 3", "an election")
	_, err = c.Latch("pool").TrySet(ctx, 1)
	want(err, "a semaphore of 3", "a latch")
	mustRelease(t, pool)

	wantTurn(t, <-once(ctx, c, "mail", time.Hour, func(context.Context) error { return nil }), true)
	_, err = c.Mutex("mail").Lock(ctx)
	want(err, "a job", "a mutex (marked as done for another 1h0m0s)")
	_, err = c.Latch("mail").TrySet(ctx, 1)
	want(err, "a job", "a latch (marked as done")
}
