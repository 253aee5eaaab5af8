package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/engine"
)

// releaseAll ends all leases, and then releases them in batches until the store has
// answered for each or ctx ends.
func (c *Client) releaseAll(ctx context.Context) error {
	var reported [][]leaseStart // of each grant, the starts of the leases whose end is reported
	all := slices.DeleteFunc(c.wakeups.grants(), func(h *storeGrant) bool {
		leases, was := h.end(nil)
		var starts []leaseStart
		if was == grantHeld && (h.acquirer.reportsReleases() || len(c.hooks.jeopardyEnd) > 0) {
			starts = h.starts(leases)
		}
		for _, l := range leases {
			_ = l.end(ErrReleased)
		}
		h.releaseLocal()
		if was != grantEnded {
			reported = append(reported, starts)
		}
		return was == grantEnded
	})
	if len(all) == 0 {
		return nil
	}
	r := &closeReleases{all: all, errs: slices.Repeat([]error{errNotConfirmed}, len(all)), left: len(all), end: make(chan struct{})}
	now := c.keep.Mono()
	for i, h := range all {
		u := &queuedRelease{release: h.releaseRequest(), from: now, until: now + closeGrace, closing: true}
		u.confirm = func(err error) { r.note(i, err) }
		if h.unsure {
			// Not a withdrawal at first: the store confirms that even if the lease
			// was gone.
			u.release.Withdraw = false
			u.then = &queuedRelease{release: h.releaseRequest(), from: now, until: now + closeGrace, closing: true}
			var first error
			u.confirm = func(err error) { first = err }
			u.then.confirm = func(error) { r.note(i, first) }
		}
		c.releases.add(u)
	}
	select {
	case <-r.end:
	case <-ctx.Done():
	}
	for i, h := range all {
		if len(reported[i]) == 0 && len(c.hooks.jeopardyEnd) > 0 { // a re-entered lease, for example
			c.reports = append(c.reports, func() { h.endJeopardy(ErrReleased) })
		}
		for _, start := range reported[i] {
			e := h.releaseEvent(h.present(), now-start.at, HandOffClose, r.of(i))
			c.recorder.released(e, start.lease)
			c.reports = append(c.reports, h.closeReport(e))
		}
	}
	return r.sum()
}

// closeReport returns a function that reports to the log and to hooks that Close has ended a lease.
func (h *storeGrant) closeReport(e ReleaseEvent) func() {
	return func() {
		h.endJeopardy(ErrReleased)
		h.client().leaseLog.released(h.id(), e)
		for _, hook := range h.client().hooks.release {
			hook.Release(e)
		}
	}
}

// errNotConfirmed is the outcome of a release that was not answered in time.
var errNotConfirmed = fmt.Errorf("%w: no answer in time", ErrUnavailable)

// closeReleases are the outcomes of the releases that Close makes.
type closeReleases struct {
	all []*storeGrant
	end chan struct{} // closed when each has an answer

	mu   sync.Mutex
	errs []error // one for each
	left int
}

func (r *closeReleases) note(i int, err error) {
	h := r.all[i]
	if gone, ok := errors.AsType[*engine.NotHeldError](err); ok {
		err = h.gone(gone)
		if h.acquirer.kind == engine.KindCond && signalled(gone) {
			err = nil // it backed no lease
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs[i] = err
	if r.left--; r.left == 0 {
		close(r.end)
	}
}

// of returns an outcome.
func (r *closeReleases) of(i int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.errs[i]
}

// sum is nil if all were released.
func (r *closeReleases) sum() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := &closeError{all: len(r.all)}
	for i, err := range r.errs {
		if err != nil {
			e.add(r.all[i].acquirer.name, err)
		}
	}
	return e.orNil()
}

// closeError describes the leases that Close could not release: how many, some of them by
// name, and an example of each kind of error.
type closeError struct {
	failed, all int
	names       []string
	causes      []error
}

// orNil returns the error, or nil if all leases were released.
func (e *closeError) orNil() error {
	if e.failed == 0 {
		return nil
	}
	return e
}

// closeNames is how many leases a closeError names.
const closeNames = 3

func (e *closeError) add(name string, err error) {
	e.failed++
	if len(e.names) < closeNames {
		e.names = append(e.names, name)
	}
	for _, kind := range []error{ErrUnavailable, ErrLost, ErrDenied, nil} {
		if kind != nil && !errors.Is(err, kind) {
			continue
		}
		if kind == nil && len(e.causes) > 0 || slices.ContainsFunc(e.causes, func(c error) bool { return errors.Is(c, kind) }) {
			return
		}
		e.causes = append(e.causes, err)
		return
	}
}

// Error implements error in one line.
func (e *closeError) Error() string {
	more := ""
	if n := e.failed - len(e.names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	why := make([]string, len(e.causes))
	for i, err := range e.causes {
		why[i] = err.Error()
	}
	return fmt.Sprintf("holdfast: close: %d of %d leases were not released: %q%s: %s",
		e.failed, e.all, e.names, more, strings.Join(why, "; "))
}

// Unwrap makes errors.Is match each kind of error.
func (e *closeError) Unwrap() []error { return e.causes }
