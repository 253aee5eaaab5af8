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

// releaseAll ends all leases, tells their holders, and then gives them back, in
// batches, until the store has answered for each or ctx ends.
func (c *Client) releaseAll(ctx context.Context) error {
	all := slices.DeleteFunc(c.mail.holdings(), func(h *holding) bool {
		leases, was := h.finish(nil)
		for _, l := range leases {
			_ = l.finish(ErrReleased)
		}
		h.vacate()
		return was == holdingEnded
	})
	if len(all) == 0 {
		return nil
	}
	r := &returns{all: all, errs: make([]error, len(all)), left: len(all), end: make(chan struct{})}
	now := c.keep.Mono()
	for i, h := range all {
		r.errs[i] = errNotConfirmed
		u := &cleanup{release: h.releaseRequest(), from: now, until: now + closeGrace, closing: true}
		u.tell = func(err error) { r.note(i, err) }
		if h.unsure {
			// Not a withdrawal at first: to that the store says yes also if the lease
			// was gone.
			u.release.Withdraw = false
			u.then = &cleanup{release: h.releaseRequest(), from: now, until: now + closeGrace, closing: true}
			var first error
			u.tell = func(err error) { first = err }
			u.then.tell = func(error) { r.note(i, first) }
		}
		c.cleanups.add(u)
	}
	select {
	case <-r.end:
	case <-ctx.Done():
	}
	return r.sum()
}

// errNotConfirmed is what became of a release that had no answer in time.
var errNotConfirmed = fmt.Errorf("%w: no answer in time", ErrUnavailable)

// returns is what becomes of the leases that Close gives back.
type returns struct {
	all []*holding
	end chan struct{} // closed when each has an answer

	mu   sync.Mutex
	errs []error // one for each
	left int
}

func (r *returns) note(i int, err error) {
	var gone *engine.NotHeldError
	if errors.As(err, &gone) {
		err = r.all[i].gone(gone)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs[i] = err
	if r.left--; r.left == 0 {
		close(r.end)
	}
}

// sum is nil if all were released.
func (r *returns) sum() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := &closeError{all: len(r.all)}
	for i, err := range r.errs {
		if err != nil {
			e.add(r.all[i].lk.name, err)
		}
	}
	if e.failed == 0 {
		return nil
	}
	return e
}

// closeError is the leases that Close could not give back: how many, some of them
// by name, and an example of each kind of trouble.
type closeError struct {
	failed, all int
	names       []string
	causes      []error
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

// Error says it in a line.
func (e *closeError) Error() string {
	more := ""
	if n := e.failed - len(e.names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	why := make([]string, len(e.causes))
	for i, err := range e.causes {
		why[i] = err.Error()
	}
	return fmt.Sprintf("holdfast: close: %d of %d leases were not given back: %q%s: %s",
		e.failed, e.all, e.names, more, strings.Join(why, "; "))
}

// Unwrap makes errors.Is find each kind of trouble.
func (e *closeError) Unwrap() []error { return e.causes }
