package primitivetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// Net is the network between a client and an engine. It counts the calls, and a test can make
// them fail or delay them: if the hook of an operation is set, it is called instead of the
// engine, which the hook may call. Hooks are changed in Set.
type Net struct {
	engine.Engine

	mu    sync.Mutex
	calls map[string]int
	// The hooks, nil by default. A wake-up for which OnWake returns false is lost.
	OnAcquire func(ctx context.Context, r engine.Request) (engine.Answer, error)
	OnRenew   func(ctx context.Context, batch []engine.Renewal) []error
	OnRelease func(ctx context.Context, r engine.Release) error
	OnResize  func(ctx context.Context, res engine.Resource, h engine.Held, weight int) error
	OnListen  func(ctx context.Context) error
	OnWake    func(w engine.Wakeup) (deliver bool)
	// Deliver delivers a wake-up to the latest stream, and Streams counts the open ones.
	Deliver func(engine.Wakeup)
	Streams int
	// Ahead is added to the engine's clock. Set it before the first call.
	Ahead time.Duration

	lag      time.Duration  // see Lag
	underway sync.WaitGroup // requests whose callers may have returned
}

var _ engine.Recaller = (*Net)(nil)

// Recalls implements engine.Recaller.
func (n *Net) Recalls() bool {
	r, ok := n.Engine.(engine.Recaller)
	return ok && r.Recalls()
}

// NewNet returns a network without faults.
func NewNet(e engine.Engine) *Net { return &Net{Engine: e, calls: make(map[string]int)} }

// Set calls change, which may change the hooks, while no call reads them.
func (n *Net) Set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// Count returns how often an operation was called: "acquire", "renew", "release",
// "resize", "listen" or "wake".
func (n *Net) Count(op string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[op]
}

func hook[T any](n *Net, op string, field *T) T {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[op]++
	return *field
}

// Acquire calls the engine, or its hook.
func (n *Net) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	if h := hook(n, "acquire", &n.OnAcquire); h != nil {
		return h(ctx, r)
	}
	return n.Engine.Acquire(ctx, r)
}

// Renew calls the engine, or its hook.
func (n *Net) Renew(ctx context.Context, batch []engine.Renewal) []error {
	if h := hook(n, "renew", &n.OnRenew); h != nil {
		return h(ctx, batch)
	}
	return n.Engine.Renew(ctx, batch)
}

// Release calls the engine, or its hook.
func (n *Net) Release(ctx context.Context, r engine.Release) error {
	if h := hook(n, "release", &n.OnRelease); h != nil {
		return h(ctx, r)
	}
	return n.Engine.Release(ctx, r)
}

// Resize calls the engine, or its hook.
func (n *Net) Resize(ctx context.Context, res engine.Resource, held engine.Held, weight int) error {
	if h := hook(n, "resize", &n.OnResize); h != nil {
		return h(ctx, res, held, weight)
	}
	return n.Engine.Resize(ctx, res, held, weight)
}

// Now returns the engine's time plus Ahead.
func (n *Net) Now(ctx context.Context) (time.Time, error) {
	now, err := n.Engine.Now(ctx)
	return now.Add(n.Ahead), err
}

// Listen calls the engine, or its hook, with OnWake for what it delivers.
func (n *Net) Listen(ctx context.Context, prefix, client string, deliver func(engine.Wakeup)) (engine.Listener, error) {
	if h := hook(n, "listen", &n.OnListen); h != nil {
		if err := h(ctx); err != nil {
			return nil, err
		}
	}
	l, err := n.Engine.Listen(ctx, prefix, client, func(w engine.Wakeup) {
		if h := hook(n, "wake", &n.OnWake); h == nil || h(w) {
			deliver(w)
		}
	})
	if err != nil {
		return nil, err
	}
	n.Set(func() { n.Deliver = deliver; n.Streams++ })
	return stream{l, n}, nil
}

// stream is an open stream, which Streams counts.
type stream struct {
	engine.Listener
	n *Net
}

// Close ends the stream.
func (s stream) Close() error {
	s.n.Set(func() { s.n.Streams-- })
	return s.Listener.Close()
}

// All gives every operation of the store the same fault, or none with nil.
func (n *Net) All(fault func(ctx context.Context) error) {
	n.Set(func() {
		n.OnAcquire, n.OnRenew, n.OnRelease, n.OnResize, n.OnListen = nil, nil, nil, nil, fault
		if fault == nil {
			return
		}
		n.OnAcquire = func(ctx context.Context, _ engine.Request) (engine.Answer, error) {
			return engine.Answer{}, fault(ctx)
		}
		n.OnRenew = func(ctx context.Context, batch []engine.Renewal) []error {
			return slices.Repeat([]error{fault(ctx)}, len(batch))
		}
		n.OnRelease = func(ctx context.Context, _ engine.Release) error { return fault(ctx) }
		n.OnResize = func(ctx context.Context, _ engine.Resource, _ engine.Held, _ int) error { return fault(ctx) }
	})
}

// ReadTimeout is how long Hang blocks.
const ReadTimeout = 3 * time.Second

// Hang is the fault of a store that does not respond: it returns an error when ctx ends, or
// after ReadTimeout.
func Hang(ctx context.Context) error {
	select {
	case <-time.After(ReadTimeout):
		return fmt.Errorf("%w: read timeout", engine.ErrUnavailable)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, context.Cause(ctx))
	}
}

// Down is the fault of a store that is unreachable.
func Down(context.Context) error { return fmt.Errorf("%w: connection refused", engine.ErrUnavailable) }

// Denied is the fault of a store that denies permission.
func Denied(context.Context) error { return fmt.Errorf("%w: NOPERM", engine.ErrDenied) }

// LoseReplies executes every request and loses every answer.
func (n *Net) LoseReplies() {
	n.Set(func() {
		n.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
			_, _ = n.Engine.Acquire(ctx, r)
			return engine.Answer{}, Down(ctx)
		}
		n.OnRenew = func(ctx context.Context, b []engine.Renewal) []error {
			_ = n.Engine.Renew(ctx, b)
			return slices.Repeat([]error{Down(ctx)}, len(b))
		}
		n.OnRelease = func(ctx context.Context, r engine.Release) error {
			_ = n.Engine.Release(ctx, r)
			return Down(ctx)
		}
		n.OnResize = func(ctx context.Context, res engine.Resource, h engine.Held, weight int) error {
			_ = n.Engine.Resize(ctx, res, h, weight)
			return Down(ctx)
		}
	})
}

// Slow delays requests and answers. A request is executed even if its caller has returned
// meanwhile.
func (n *Net) Slow(there, back time.Duration) {
	n.Set(func() {
		n.lag = max(n.lag, there+back)
		n.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) {
			type outcome struct {
				a   engine.Answer
				err error
			}
			got := make(chan outcome, 1)
			if err := n.trip(ctx, there, back, func(ctx context.Context) { a, err := n.Engine.Acquire(ctx, r); got <- outcome{a, err} }); err != nil {
				return engine.Answer{}, err
			}
			o := <-got
			return o.a, o.err
		}
		n.OnRenew = func(ctx context.Context, b []engine.Renewal) []error {
			got := make(chan []error, 1)
			if err := n.trip(ctx, there, back, func(ctx context.Context) { got <- n.Engine.Renew(ctx, b) }); err != nil {
				return slices.Repeat([]error{err}, len(b))
			}
			return <-got
		}
		n.OnRelease = func(ctx context.Context, r engine.Release) error {
			got := make(chan error, 1)
			if err := n.trip(ctx, there, back, func(ctx context.Context) { got <- n.Engine.Release(ctx, r) }); err != nil {
				return err
			}
			return <-got
		}
	})
}

// Lag returns the longest delay of a request and its answer that Slow has ever set.
func (n *Net) Lag() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lag
}

// trip executes a request after the delay there, and returns after the delay back.
func (n *Net) trip(ctx context.Context, there, back time.Duration, op func(context.Context)) error {
	done := make(chan struct{})
	n.underway.Go(func() {
		defer close(done)
		<-time.After(there)
		op(context.WithoutCancel(ctx))
	})
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, ctx.Err())
	}
	select {
	case <-time.After(back):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, ctx.Err())
	}
}

// Arrived waits until all requests that Slow delays have been executed. The client must be
// closed.
func (n *Net) Arrived() { n.underway.Wait() }
