package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// faulty is a memory engine whose calls a test can count, spoil, delay and cut.
// A script stands before an operation and decides whether and when it is done.
type faulty struct {
	*memory.Engine

	mu      sync.Mutex
	calls   map[string]int
	acquire func(ctx context.Context, r engine.Request) (engine.Answer, error)
	renew   func(ctx context.Context, batch []engine.Renewal) []error
	release func(ctx context.Context, r engine.Release) error
	resize  func(ctx context.Context, res engine.Resource, h engine.Held, weight int) error
	listen  func(ctx context.Context) error
	wake    func(w engine.Wakeup) (deliver bool)
	tell    func(engine.Wakeup) // the latest stream
	streams int                 // open ones
}

var _ engine.Engine = (*faulty)(nil)

func newFaulty() *faulty {
	return &faulty{Engine: memory.New(), calls: make(map[string]int)}
}

// set changes the scripts.
func (f *faulty) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// count returns how often an operation was called.
func (f *faulty) count(op string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[op]
}

func script[T any](f *faulty, op string, field *T) T {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[op]++
	return *field
}

func (f *faulty) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	if s := script(f, "acquire", &f.acquire); s != nil {
		return s(ctx, r)
	}
	return f.Engine.Acquire(ctx, r)
}

func (f *faulty) Renew(ctx context.Context, batch []engine.Renewal) []error {
	if s := script(f, "renew", &f.renew); s != nil {
		return s(ctx, batch)
	}
	return f.Engine.Renew(ctx, batch)
}

func (f *faulty) Release(ctx context.Context, r engine.Release) error {
	if s := script(f, "release", &f.release); s != nil {
		return s(ctx, r)
	}
	return f.Engine.Release(ctx, r)
}

func (f *faulty) Resize(ctx context.Context, res engine.Resource, h engine.Held, weight int) error {
	if s := script(f, "resize", &f.resize); s != nil {
		return s(ctx, res, h, weight)
	}
	return f.Engine.Resize(ctx, res, h, weight)
}

func (f *faulty) Listen(ctx context.Context, prefix, client string, deliver func(engine.Wakeup)) (engine.Listener, error) {
	if s := script(f, "listen", &f.listen); s != nil {
		if err := s(ctx); err != nil {
			return nil, err
		}
	}
	l, err := f.Engine.Listen(context.WithoutCancel(ctx), prefix, client, func(w engine.Wakeup) {
		if s := script(f, "wake", &f.wake); s == nil || s(w) {
			deliver(w)
		}
	})
	if err != nil {
		return nil, err
	}
	f.set(func() { f.tell = deliver; f.streams++ })
	return stream{l, f}, nil
}

// stream counts itself.
type stream struct {
	engine.Listener
	f *faulty
}

func (s stream) Close() error {
	s.f.set(func() { s.f.streams-- })
	return s.Listener.Close()
}

// all gives every operation of the store the same fault, or none with nil.
func (f *faulty) all(fault func(ctx context.Context) error) {
	f.set(func() {
		f.acquire, f.renew, f.release, f.resize, f.listen = nil, nil, nil, nil, fault
		if fault == nil {
			return
		}
		f.acquire = func(ctx context.Context, _ engine.Request) (engine.Answer, error) {
			return engine.Answer{}, fault(ctx)
		}
		f.renew = func(ctx context.Context, batch []engine.Renewal) []error {
			return each(batch, fault(ctx))
		}
		f.release = func(ctx context.Context, _ engine.Release) error { return fault(ctx) }
		f.resize = func(ctx context.Context, _ engine.Resource, _ engine.Held, _ int) error { return fault(ctx) }
	})
}

func each(batch []engine.Renewal, err error) []error {
	errs := make([]error, len(batch))
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// readTimeout is that of a hung connection.
const readTimeout = 3 * time.Second

// hang is a store that does not answer until the caller gives up or, for one who
// never does, the read timeout of its connection is over.
func hang(ctx context.Context) error {
	if ctx.Done() == nil {
		<-time.After(readTimeout)
		return fmt.Errorf("%w: read timeout", engine.ErrUnavailable)
	}
	<-ctx.Done()
	return fmt.Errorf("%w: %w", engine.ErrUnavailable, context.Cause(ctx))
}

// down is a store that cannot be reached.
func down(context.Context) error { return fmt.Errorf("%w: connection refused", engine.ErrUnavailable) }

// denied is a store that refuses.
func denied(context.Context) error { return fmt.Errorf("%w: NOPERM", engine.ErrDenied) }

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

// wantEmpty checks that nobody holds or waits in the engine.
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
