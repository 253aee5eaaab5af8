package holdfast_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// listening returns a client whose stream of wake-ups is open.
func listening(t *testing.T, e engine.Engine, opts ...holdfast.Option) *holdfast.Client {
	t.Helper()
	c := newClient(t, e, opts...)
	l := mustLock(t, c.Mutex("listening"), context.Background())
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := c.Mutex("listening", holdfast.WithoutTenure()).Lock(ctx)
	wantErr(t, err, holdfast.ErrNotAcquired)
	mustRelease(t, l)
	return c
}

// A break that comes after the grant and before its answer has come finds the
// attempt and not yet the holding. It is not lost in between.
func TestBreakBeforeTheGrantIsTaken(t *testing.T) {
	for name, opts := range map[string][]holdfast.LockOption{"tenure": nil, "without tenure": {holdfast.WithoutTenure()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFaulty()
				c := listening(t, e)
				broken := 0
				e.Set(func() {
					e.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
						ans, err := e.Engine.Acquire(ctx, r)
						if broken++; broken == 1 {
							if err := e.Engine.Break(ctx, r.Resource, engine.Break{ID: r.ID}); err != nil || ans.Status != engine.Granted {
								t.Errorf("granted: %v; Break: %v", ans.Status, err)
							}
						}
						return ans, err
					}
				})
				start := time.Now()
				l, err := c.Mutex("x", opts...).Lock(context.Background())
				if err == nil {
					t.Errorf("a lease that was broken: %v", l.Err())
				}
				wantErr(t, err, holdfast.ErrNotAcquired)
				synctest.Wait()
				if took := time.Since(start); took > 0 {
					t.Errorf("told after %v", took)
				}
				wantEmpty(t, e, "x")
				mustRelease(t, mustLock(t, c.Mutex("x", opts...), context.Background()))
			})
		})
	}
}
