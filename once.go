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
// lease is lost, and LeaseFrom gives it the fencing token.
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

// errand is work that is done at most once while its mark lasts.
type errand struct {
	locker
	keep time.Duration
}

// errand names the work. It is marked at the grant, or, if it shall be retried,
// when it is done.
func (c *Client) errand(name string, keep time.Duration, retry bool, opts lockOptions) *errand {
	// A lease that re-enters would do the work a second time inside the first.
	opts.reentrant = false
	t := terms{kind: engine.KindJob, capacity: 1, opts: opts}
	if !retry {
		t.mark = keep
	}
	return &errand{keep: keep, locker: t.on(c, name)}
}

// claim waits for the lease. It returns nil without an error if the work has been
// done.
func (e *errand) claim(ctx context.Context) (*Lease, error) {
	l, err := e.lock(ctx, 1)
	if endedBy(err, errMarked) {
		return nil, nil
	}
	return l, err
}

// perform runs fn under the lease. It returns nil only if fn did, in time, and
// the store is known to have the mark.
func (e *errand) perform(ctx context.Context, l *Lease, fn func(ctx context.Context) error) (err error) {
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
		return l.conclude(ctx, e.keep)
	}
	if errors.Is(l.Err(), ErrReleased) {
		return opError("finish", e.name, ErrClosed) // nobody else could release it
	}
	return nil
}

// conclude gives a lease back and marks its resource as done, in one step.
func (l *Lease) conclude(ctx context.Context, keep time.Duration) error {
	h := l.footing.(*holding) // an errand stands on nothing else
	if _, held := h.leave(l); !held {
		return l.finish(h.ending())
	}
	if why := l.finish(ErrReleased); errors.Is(why, ErrLost) {
		_ = h.giveBack(ctx, l) // it was broken
		return why
	}
	since := h.since
	err := h.conclude(ctx, keep)
	for _, hook := range h.client().hooks.release {
		hook.Release(Release{Resource: h.lk.name, Token: l.token, Held: h.client().keep.Mono() - since, Err: err})
	}
	return err
}

// conclude returns nil when the store has confirmed the mark. It goes on trying
// for as long as ctx allows and the lease can be alive.
func (h *holding) conclude(ctx context.Context, keep time.Duration) error {
	c := h.client()
	if !c.gate.join() {
		return opError("finish", h.lk.name, ErrClosed)
	}
	defer c.gate.leave()
	end := h.deadline()
	h.finish(nil)
	call, cancel := c.releaseContext(ctx)
	defer cancel()
	call, cancelLate := context.WithTimeout(call, max(time.Until(end), releaseGrace))
	defer cancelLate()
	// Not a withdrawal: to that the store says yes also if the lease was gone and
	// nothing was marked. It comes afterwards, if copies may be under way.
	mark := engine.Release{Resource: h.lk.resource(), Held: h.held, Mark: keep}
	ttl := h.entry.TTL
	answered := false
	defer func() {
		if h.unsure || !answered { // the engine may have panicked
			c.cleanup(ttl, h.releaseRequest())
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
			return &LostError{Resource: h.lk.name, Token: h.present(), Cause: lostCause(gone.Cause)}
		case !errors.Is(err, ErrUnavailable):
			c.cleanup(ttl, h.releaseRequest())
			return opError("finish", h.lk.name, err)
		case !slow.pause(call):
			c.cleanup(ttl, mark)
			return opError("finish", h.lk.name, fmt.Errorf("whether it is marked as done is unknown: %w", err))
		}
	}
}
