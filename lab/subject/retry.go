package subject

import (
	"context"
	"errors"
	"time"
)

// defaultRetry is shorter than the 100 ms of most articles, to save time.
const defaultRetry = 5 * time.Millisecond

// Pause returns the delay between two tries: Retry, or its default.
func (s Setup) Pause() time.Duration {
	if s.Retry <= 0 {
		return defaultRetry
	}
	return s.Retry
}

// poll tries until it succeeds, like most old locks.
func poll(ctx context.Context, s Setup, try func(context.Context) (Hold, error)) (Hold, error) {
	for {
		h, err := try(ctx)
		if !errors.Is(err, ErrBusy) {
			return h, err
		}
		if err := rest(ctx, s.Pause()); err != nil {
			return nil, err
		}
	}
}

// rest waits for d. If ctx ends first, it returns the cause of ctx.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// deadly reports whether an error came from a point, so that the operation must stop.
func deadly(err error) bool { return errors.Is(err, ErrDead) }
