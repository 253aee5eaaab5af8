package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
)

// faulty is a memory engine behind a network whose calls a test can count, spoil,
// delay and cut.
type faulty struct{ *primitivetest.Net }

func newFaulty() *faulty { return &faulty{primitivetest.NewNet(memory.New())} }

// failAcquires makes the requests for one resource fail, and no others.
func (e *faulty) failAcquires(name string, fail func(context.Context) error) {
	e.Set(func() {
		e.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
			if r.Resource.Name == name {
				return engine.Answer{}, fail(ctx)
			}
			return e.Engine.Acquire(ctx, r)
		}
	})
}

func hang(ctx context.Context) error   { return primitivetest.Hang(ctx) }
func down(ctx context.Context) error   { return primitivetest.Down(ctx) }
func denied(ctx context.Context) error { return primitivetest.Denied(ctx) }

// newClient returns a client that is closed at the end of the test.
func newClient(t testing.TB, e engine.Engine, opts ...holdfast.Option) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(e, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// lockFunc acquires a lease: m.Lock, rw.TryRLock and so on.
type lockFunc = func(context.Context) (*holdfast.Lease, error)

// units returns the lockFunc that acquires units of a semaphore.
func units(s *holdfast.Semaphore, weight int) lockFunc {
	return func(ctx context.Context) (*holdfast.Lease, error) { return s.Acquire(ctx, weight) }
}

// mustLock acquires a lease or fails the test.
func mustLock(t testing.TB, lock lockFunc, ctx context.Context) *holdfast.Lease {
	t.Helper()
	l, err := lock(ctx)
	if err != nil {
		t.Fatalf("not acquired: %v", err)
	}
	return l
}

// mustNotLock checks that an acquire fails with an error that matches each of the targets.
func mustNotLock(t testing.TB, lock lockFunc, ctx context.Context, targets ...error) {
	t.Helper()
	_, err := lock(ctx)
	wantErr(t, err, targets...)
}

func mustRelease(t testing.TB, l *holdfast.Lease) {
	t.Helper()
	if err := l.Release(context.Background()); err != nil {
		t.Errorf("Release: %v", err)
	}
}

// wantErr checks that err is each of the targets.
func wantErr(t testing.TB, err error, targets ...error) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want %v", targets)
	}
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %q is not %q", err, target)
		}
	}
}

// wantLost checks that err is a loss for a cause.
func wantLost(t testing.TB, err error, cause holdfast.LostCause) {
	t.Helper()
	lost, ok := errors.AsType[*holdfast.LostError](err)
	if !ok || !errors.Is(err, holdfast.ErrLost) {
		t.Fatalf("error %v is no LostError", err)
	}
	if lost.Cause != cause {
		t.Errorf("lost: %v; want %v", lost.Cause, cause)
	}
}

// wantEmpty checks that the resource has no holders and no waiters in the engine.
func wantEmpty(t testing.TB, e engine.Engine, name string) {
	t.Helper()
	s := look(t, e, name)
	if len(s.Holders)+len(s.Waiters) > 0 {
		t.Errorf("left in the engine: holders %+v, waiters %+v", s.Holders, s.Waiters)
	}
}

func look(t testing.TB, e engine.Engine, name string) engine.Snapshot {
	t.Helper()
	s, err := e.Snapshot(context.Background(), engine.Resource{Prefix: holdfast.DefaultPrefix, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// result is the result of a call in the background, and the time of its return.
type result struct {
	lease *holdfast.Lease
	err   error
	at    time.Time
}

// lockSoon acquires a lease in the background.
func lockSoon(ctx context.Context, lock lockFunc) <-chan result {
	got := make(chan result, 1)
	go func() {
		l, err := lock(ctx)
		got <- result{l, err, time.Now()}
	}()
	return got
}

// wantGrant waits for a lockSoon and fails the test if it returned an error.
func wantGrant(t testing.TB, got <-chan result) result {
	t.Helper()
	r := <-got
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r
}

// wantWaiting fails the test if a lockSoon has returned.
func wantWaiting(t testing.TB, got <-chan result, why string) {
	t.Helper()
	select {
	case r := <-got:
		t.Fatalf("%s: %v, %v", why, r.lease, r.err)
	default:
	}
}
