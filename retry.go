package holdfast

import (
	"context"
	"errors"
	mathrand "math/rand/v2"
	"time"
)

// backoff grows from 10 ms to 1 s, with jitter.
type backoff struct{ n int }

func (b *backoff) next() time.Duration {
	d := min(10*time.Millisecond<<min(b.n, 10), time.Second)
	b.n++
	return d/2 + mathrand.N(d)
}

// pause waits until the next retry. It returns false if ctx ended first.
func (b *backoff) pause(ctx context.Context) bool { return sleep(ctx, b.next()) }

// How often retry repeats a call.
const (
	fewRetries = 3 // and not after releaseGrace
	noLimit    = -1
)

// retry makes a call and repeats it after a backoff, while the store does not answer and
// ctx lasts. It returns the last error.
func retry(ctx context.Context, retries int, call func() error) error {
	start := time.Now()
	for slow := (backoff{}); ; {
		err := call()
		if !errors.Is(err, ErrUnavailable) || slow.n == retries ||
			retries != noLimit && time.Since(start) > releaseGrace || !slow.pause(ctx) {
			return err
		}
	}
}

// repeat repeats a call until the store answers. Each call is bounded by requestTimeout. If ctx or
// the client ends first, over is the reason, and err the error of the last call, if there
// was one.
func (c *Client) repeat(ctx context.Context, call func(ctx context.Context) error) (err, over error) {
	for slow := (backoff{}); ; c.sleep(ctx, slow.next()) {
		switch {
		case c.life.Err() != nil:
			return err, ErrClosed
		case ctx.Err() != nil:
			return err, context.Cause(ctx)
		}
		once, done := context.WithTimeout(ctx, requestTimeout)
		err = call(once)
		done()
		if !errors.Is(err, ErrUnavailable) {
			return err, nil
		}
	}
}

// waitOver returns why a wait for a resource is over, or nil: ctx has ended or the client is closed.
func (c *Client) waitOver(ctx context.Context, name string, trouble error) error {
	switch {
	case ctx.Err() != nil:
		return &waitError{name, context.Cause(ctx), trouble}
	case c.life.Err() != nil:
		return &waitError{name, ErrClosed, nil}
	}
	return nil
}

// sleep waits for d. It returns false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// sleep is like the function sleep, and also ends with the client.
func (c *Client) sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	case <-c.life.Done():
	}
}

// background runs f, which cleans up, in the background, for at most the given time. The
// channel is closed when f has ended, or at once if the client is closed.
func (c *Client) background(limit time.Duration, f func(ctx context.Context)) <-chan struct{} {
	ended := make(chan struct{})
	if !c.gate.JoinCleanup() {
		close(ended)
		return ended
	}
	go func() {
		defer c.gate.Leave()
		defer close(ended)
		ctx, cancel := context.WithTimeout(c.tasks, limit)
		defer cancel()
		f(ctx)
	}()
	return ended
}
