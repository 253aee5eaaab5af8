package holdfast_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// far is a memory engine whose acquisitions take a while: half there, half back.
func far(delay time.Duration) *faulty {
	e := newFaulty()
	e.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
		<-time.After(delay / 2)
		ans, err := e.Engine.Acquire(ctx, r)
		<-time.After(delay / 2)
		return ans, err
	}
	return e
}

// A store that is so far away that the trust window of a grant is over when it
// arrives is an error that says so, and leaves nothing.
func TestTTLTooShortForTheStore(t *testing.T) {
	ttl := holdfast.WithTTL(100 * time.Millisecond)
	for name, lock := range map[string]func(ctx context.Context, c *holdfast.Client) (*holdfast.Lease, error){
		"Lock": func(ctx context.Context, c *holdfast.Client) (*holdfast.Lease, error) {
			return c.Mutex("x", ttl).Lock(ctx)
		},
		"TryLock": func(ctx context.Context, c *holdfast.Client) (*holdfast.Lease, error) {
			return c.Mutex("x", ttl).TryLock(ctx)
		},
		"RLock": func(ctx context.Context, c *holdfast.Client) (*holdfast.Lease, error) {
			return c.RWMutex("x", ttl).RLock(ctx)
		},
		"without renewal": func(ctx context.Context, c *holdfast.Client) (*holdfast.Lease, error) {
			return c.Mutex("x", ttl, holdfast.WithoutRenewal()).Lock(ctx)
		},
		"LocalOnly": func(ctx context.Context, c *holdfast.Client) (*holdfast.Lease, error) {
			return c.Mutex("x", ttl, holdfast.WithFallback(holdfast.LocalOnly)).Lock(ctx)
		},
		"Multi": func(ctx context.Context, c *holdfast.Client) (*holdfast.Lease, error) {
			return c.Multi([]string{"x"}, ttl).Lock(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := far(90 * time.Millisecond)
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				start := time.Now()
				_, err := lock(ctx, newClient(t, e))
				if took := time.Since(start); took > time.Second {
					t.Errorf("it took %v", took)
				}
				wantErr(t, err, holdfast.ErrNotAcquired, holdfast.ErrInvalid)
				if errors.Is(err, holdfast.ErrUnavailable) || !strings.Contains(err.Error(), "TTL 100ms is too short for this store, whose grants took 90ms") {
					t.Errorf("error %q", err)
				}
				time.Sleep(callGrace)
				wantEmpty(t, e, "x")
			})
		})
	}
}

// callGrace is how long a call may leave its clean-up to the background.
const callGrace = 100 * time.Millisecond

// A store may keep a lease for longer than its TTL, and engine/cas does so after a slow reply to its
// question for the time. The trust window is no longer: after a forced break its holder
// relies on the lease for a TTL at most.
func TestTrustWindowIsNoLongerThanTheTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 500 * time.Millisecond
		e := newFaulty()
		e.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
			r.TTL += 700 * time.Millisecond
			return e.Engine.Acquire(ctx, r)
		}
		m := newClient(t, e).Mutex("x", holdfast.WithTTL(ttl))
		sent := time.Now()
		l := mustLock(t, m.Lock, context.Background())
		if window := l.Deadline().Sub(sent); window >= ttl || window < ttl*9/10 {
			t.Errorf("the trust window is %v, and the TTL %v", window, ttl)
		}
		mustRelease(t, l)
	})
}

// Late grants are retried unless three arrive in a row, also if the attempt waits for a
// holder in between.
func TestLateGrantsAreRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := far(90 * time.Millisecond)
		slow, calls := e.OnAcquire, 0
		e.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
			if calls++; calls == 3 {
				return e.Engine.Acquire(ctx, r)
			}
			return slow(ctx, r)
		}
		m := newClient(t, e).Mutex("x", holdfast.WithTTL(100*time.Millisecond))
		mustRelease(t, mustLock(t, m.Lock, context.Background()))
	})
}
