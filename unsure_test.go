package holdfast_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// The first request is not answered and arrives late; the second one was granted. The
// client that releases the lease withdraws it, also if the lease was detached and adopted
// in between.
func TestDetachedWithACopyUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		var late engine.Request
		e.Set(func() {
			e.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
				if late.ID == "" {
					late = r
					return engine.Answer{}, down(ctx)
				}
				return e.Engine.Acquire(ctx, r)
			}
		})
		a, b := newClient(t, e), newClient(t, e)
		text, err := mustLock(t, a.Mutex("x", holdfast.WithTTL(time.Hour)).Lock, context.Background()).Detach(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		l, err := b.Adopt(context.Background(), text)
		if err != nil {
			t.Fatal(err)
		}
		mustRelease(t, l)
		_, _ = e.Engine.Acquire(context.Background(), late)
		wantEmpty(t, e.Engine, "x")
	})
}

// A withdrawal is always confirmed, so it must follow a plain release: otherwise a loss
// would not be reported.
func TestReleaseReturnsALossAfterALostReply(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFaulty()
				calls := 0
				e.Set(func() {
					e.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
						a, err := e.Engine.Acquire(ctx, r)
						if calls++; calls == 1 && lost {
							return engine.Answer{}, down(ctx)
						}
						return a, err
					}
				})
				m := newClient(t, e).Mutex("x")
				err := m.Do(context.Background(), func(context.Context) error {
					s := look(t, e.Engine, "x")
					return e.Engine.Break(context.Background(), s.Resource, engine.Break{ID: s.Holders[0].ID})
				})
				wantErr(t, err, holdfast.ErrLost)
			})
		})
	}
}

// A yield that got no answer may not have released the lease. If the caller behind it leaves,
// that release is made.
func TestYieldThatIsWithdrawnReleasesTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		m := newClient(t, e).Mutex("x", holdfast.WithTTL(time.Hour))
		l := mustLock(t, m.Lock, context.Background())
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		next := lockSoon(ctx, m.Lock)
		time.Sleep(time.Second) // longer than a slice
		e.All(down)
		wantErr(t, l.Release(context.Background()), holdfast.ErrUnavailable)
		cancel()
		wantErr(t, (<-next).err, context.Canceled)
		e.All(nil)
		time.Sleep(10 * time.Second)
		wantEmpty(t, e.Engine, "x")
	})
}
