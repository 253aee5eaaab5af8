package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// MaxKeep is the longest time for which a mark can be kept.
const MaxKeep = 10 * 365 * 24 * time.Hour

// Once runs fn unless it was done before: for work that must be done once, like a
// message that may be delivered twice. When fn has returned nil, the id is marked
// as done for keepFor (100 ms to MaxKeep), and Once returns true and nil; until
// the mark ends, every other Once of the id returns false and nil.
//
// A Once that comes while another runs waits for its turn; then it finds the mark,
// or runs fn itself if the other one failed, or was killed and its TTL of 15 s has
// run out. fn gets the Context of the lease, which is cancelled in time when the
// lease is lost, and LeaseFromContext gives it the fencing token.
//
// With ran true and an error, fn was called and the id is not known to be done:
// the error is that of fn; or it is ErrLost if the lease was lost while fn ran, or
// ErrUnavailable if the store did not confirm the mark, even if fn returned nil:
// then fn may be run again, here or elsewhere, so what it does should be fenced or
// bear repetition. With ran false the errors are those of Mutex.Lock.
//
// An id names a resource and its mark. Job with AtLeast and RetryFailed, and
// without Every and Cron, is the same with options.
func (c *Client) Once(ctx context.Context, id string, keepFor time.Duration, fn func(ctx context.Context) error) (ran bool, err error) {
	return c.Job(id, AtLeast(keepFor), RetryFailed()).Run(ctx, fn)
}

// errMarked ends a wait for what has been done.
var errMarked = errors.New("it is marked as done")

// onceRun is one run of work that is done at most once while its mark lasts.
type onceRun struct {
	acquirer
	keep time.Duration
}

// newOnceRun returns the run of an ID. The mark is made at the grant or, if failed work is to
// be retried, when fn has returned nil.
func (c *Client) newOnceRun(name string, keep time.Duration, retry bool, opts lockOptions) *onceRun {
	// A lease that re-enters would do the work a second time inside the first.
	opts.reentrant = false
	t := lockSpec{kind: engine.KindJob, capacity: 1, opts: opts}
	if !retry {
		t.mark = keep
	}
	return &onceRun{keep: keep, acquirer: t.on(c, name)}
}

// acquireUnmarked waits for the lease. It returns nil and no error if the work is marked
// as done.
func (e *onceRun) acquireUnmarked(ctx context.Context) (*Lease, error) {
	l, err := e.lock(ctx, 1)
	if endedBy(err, errMarked) {
		return nil, nil
	}
	return l, err
}

// run runs fn under the lease. It returns nil only if fn returned nil in time and the
// store has confirmed the mark.
func (e *onceRun) run(ctx context.Context, l *Lease, fn func(ctx context.Context) error) (err error) {
	concluded := false
	defer func() {
		if concluded {
			return
		}
		// As with Mutex.Do, a release that is not confirmed goes on by itself.
		if rel := l.Release(ctx); errors.Is(rel, ErrLost) {
			err = errors.Join(err, rel)
		}
	}()
	if err := fn(l.Context()); err != nil {
		return err
	}
	if l.Err() == nil && e.mark == 0 {
		concluded = true
		return l.releaseMarked(ctx, e.keep)
	}
	if errors.Is(l.Err(), ErrReleased) {
		return opError("finish", e.name, ErrClosed) // nobody else could release it
	}
	return nil
}

// releaseMarked releases a lease and marks its resource as done, in one step.
func (l *Lease) releaseMarked(ctx context.Context, keep time.Duration) error {
	h := l.grant.(*storeGrant) // a Once has no other grant
	if _, held := h.remove(l); !held {
		return l.end(h.ending())
	}
	if why := l.end(ErrReleased); errors.Is(why, ErrLost) {
		_ = h.releaseLast(ctx, l) // it was broken
		return why
	}
	since := h.since
	err := h.releaseMarked(ctx, keep)
	for _, hook := range h.client().hooks.release {
		hook.Release(ReleaseEvent{Resource: h.acquirer.name, Token: l.token, Held: h.client().keep.Mono() - since, Err: err})
	}
	return err
}

// releaseMarked returns nil once the store has confirmed the mark. It retries as long as
// ctx allows and the lease can be alive.
func (h *storeGrant) releaseMarked(ctx context.Context, keep time.Duration) error {
	c := h.client()
	if !c.gate.joinCleanup() {
		return opError("finish", h.acquirer.name, ErrClosed)
	}
	defer c.gate.leave()
	end := h.deadline()
	h.end(nil)
	call, cancel := c.releaseContext(ctx)
	defer cancel()
	call, cancelLate := context.WithTimeout(call, max(time.Until(end), releaseGrace))
	defer cancelLate()
	// Not a withdrawal: the store confirms that even if the lease was gone and nothing
	// was marked. If copies of the acquire may be under way, it follows.
	mark := engine.Release{Resource: h.acquirer.resource(), Held: h.held, Mark: keep}
	ttl := h.entry.TTL
	answered := false
	defer func() {
		if h.unsure || !answered { // the engine may have panicked
			c.queueRelease(ttl, h.releaseRequest())
		}
	}()
	var slow backoff
	for {
		err := c.engine.Release(call, mark)
		answered = true
		var gone *engine.NotHeldError
		switch {
		case err == nil:
			return nil
		case errors.As(err, &gone):
			return &LostError{Resource: h.acquirer.name, Token: h.present(), Cause: lostCause(gone.Cause)}
		case !errors.Is(err, ErrUnavailable):
			c.queueRelease(ttl, h.releaseRequest())
			return opError("finish", h.acquirer.name, err)
		case !slow.pause(call):
			c.queueRelease(ttl, mark)
			return opError("finish", h.acquirer.name, fmt.Errorf("whether it is marked as done is unknown: %w", err))
		}
	}
}
