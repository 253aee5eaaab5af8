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

func hang(ctx context.Context) error   { return primitivetest.Hang(ctx) }
func down(ctx context.Context) error   { return primitivetest.Down(ctx) }
func denied(ctx context.Context) error { return primitivetest.Denied(ctx) }

func each(batch []engine.Renewal, err error) []error {
	errs := make([]error, len(batch))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

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

// mustLock locks or fails the test.
func mustLock(t testing.TB, m *holdfast.Mutex, ctx context.Context) *holdfast.Lease {
	t.Helper()
	l, err := m.Lock(ctx)
	if err != nil {
		t.Fatalf("Lock: %v", err)
	}
	return l
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
	var lost *holdfast.LostError
	if !errors.As(err, &lost) || !errors.Is(err, holdfast.ErrLost) {
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

// result is what a Lock in the background returned, and when.
type result struct {
	lease *holdfast.Lease
	err   error
	at    time.Time
}

// lockSoon locks in the background.
func lockSoon(ctx context.Context, m *holdfast.Mutex) <-chan result {
	got := make(chan result, 1)
	go func() {
		l, err := m.Lock(ctx)
		got <- result{l, err, time.Now()}
	}()
	return got
}
