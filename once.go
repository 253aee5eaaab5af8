package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// MaxKeep is the maximum time for which a mark is kept.
const MaxKeep = 10 * 365 * 24 * time.Hour

// Once calls fn unless the work of this id is marked as done: for work that
// must be done once, such as a message that may be delivered twice. When fn has
// returned nil, Once marks the id as done for keepFor (100 ms to MaxKeep) and
// returns true and nil. Until the mark ends, any other Once with this id
// returns false and nil.
//
// If another Once with this id is running, Once waits. It then finds the mark,
// or calls fn itself if the other one failed, or was killed and its TTL of 15 s
// has run out. fn gets the lease's Context, which is cancelled in time if the
// lease is lost; LeaseFromContext returns the lease with its fencing token.
//
// If ran is true and err is not nil, fn was called and the work is not known to
// be done: err is the error of fn, ErrLost if the lease was lost while fn ran,
// or ErrUnavailable if the store did not confirm the mark; ErrReleased if fn
// itself released the lease, before there was a mark. ErrLost and ErrUnavailable are
// possible even if fn returned nil, and fn may then be called again, here or
// elsewhere, so its work must be fenced or idempotent. If ran is false, the
// errors are those of [Mutex.Lock].
//
// The id is the name of a resource. A Job with AtLeast and RetryFailed, and
// without Every and Cron, does the same and takes options.
func (c *Client) Once(ctx context.Context, id string, keepFor time.Duration, fn func(ctx context.Context) error) (ran bool, err error) {
	return c.Job(id, AtLeast(keepFor), RetryFailed()).Run(ctx, fn)
}

// errMarked ends a wait for a resource that is marked as done.
var errMarked = errors.New("the work is marked as done")

// onceRun is one run of work that is done at most once while its mark lasts.
type onceRun struct {
	acquirer
	keep time.Duration
}

// newOnceRun returns the run of an ID. The mark is set by the grant or, with
// retry, after fn has returned nil.
func (c *Client) newOnceRun(name string, keep time.Duration, retry bool, opts lockOptions) *onceRun {
	// A lease that re-enters would do the work a second time inside the first.
	opts.reentrant = false
	t := lockSpec{kind: engine.KindJob, capacity: 1, opts: opts}
	if !retry {
		t.mark = keep
	}
	return &onceRun{keep: keep, acquirer: t.on(c, name)}
}

// acquireUnmarked waits for the lease. It returns nil and no error if the work
// is marked as done.
func (e *onceRun) acquireUnmarked(ctx context.Context) (*Lease, error) {
	l, err := e.acquire(ctx, 1, andWait)
	if endedBy(err, errMarked) {
		return nil, nil
	}
	return l, err
}

// run calls fn under the lease. It returns nil only if fn returned nil in time
// and the store has confirmed the mark.
func (e *onceRun) run(ctx context.Context, l *Lease, fn func(ctx context.Context) error) (err error) {
	marked := false
	defer func() {
		if marked {
			return
		}
		// As in Mutex.Do, an unconfirmed release is retried in the background.
		if rel := l.Release(ctx); errors.Is(rel, ErrLost) {
			err = errors.Join(err, rel)
		}
	}()
	if err := fn(l.Context()); err != nil {
		return err
	}
	if l.Err() == nil && e.mark == 0 {
		marked = true
		return l.grant.release(ctx, l, e.keep)
	}
	switch released := errors.Is(l.Err(), ErrReleased); {
	case released && e.c.life.Err() != nil:
		return opError("finish", e.name, ErrClosed)
	case released && e.mark == 0:
		return opError("finish", e.name, fmt.Errorf("%w by the function, before it was marked as done", ErrReleased))
	}
	return nil
}
