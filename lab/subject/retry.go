package subject

import (
	"context"
	"errors"
	"time"
)

// defaultRetry is short: the lab has no time for the 100 ms of most articles.
const defaultRetry = 5 * time.Millisecond

// Pause is how long a lock waits between two tries: Retry, or its default.
func (s Setup) Pause() time.Duration {
	if s.Retry <= 0 {
		return defaultRetry
	}
	return s.Retry
}

// poll tries again and again, as most old locks wait.
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

// rest waits for d, or for the end of ctx, whose cause it returns.
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

// deadly reports whether an error came from a point, so that nothing more is done.
func deadly(err error) bool { return errors.Is(err, ErrDead) }
