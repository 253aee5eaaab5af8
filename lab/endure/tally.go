package endure

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast"
)

// Tally is what a member has done.
type Tally struct {
	Granted  int            // leases, also those that were handed off in the process
	Renewals int            // of leases
	Done     int            // operations that did what they should
	Refused  int            // others held the resource, or the wait was ended
	Failed   int            // the store was unavailable, or the lease was lost
	Works    map[string]int // Done, by the name of the work
	Wrong    []string       // errors that nothing explains
}

// tally counts. It is a hook.
type tally struct {
	granted, renewals atomic.Int64

	mu  sync.Mutex
	sum Tally
}

// AcquireEnd implements holdfast.AcquireEndHook.
func (t *tally) AcquireEnd(_ context.Context, e holdfast.AcquireEndEvent) {
	if e.Err == nil {
		t.granted.Add(1)
	}
}

// Renew implements holdfast.RenewHook.
func (t *tally) Renew(e holdfast.RenewEvent) {
	if e.Err == nil {
		t.renewals.Add(1)
	}
}

// mostWrong bounds the errors that are kept: in a run that fails the first ones say why.
const mostWrong = 20

// note counts the end of an operation.
func (t *tally) note(work string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		t.sum.Done++
		if t.sum.Works == nil {
			t.sum.Works = map[string]int{}
		}
		t.sum.Works[work]++
	case errors.Is(err, errPromise):
		t.wrong(work, err)
	case errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, holdfast.ErrLost) || errors.Is(err, errStale) || errors.Is(err, context.DeadlineExceeded):
		t.sum.Failed++
	case errors.Is(err, holdfast.ErrNotAcquired) || errors.Is(err, errMissed):
		t.sum.Refused++
	default:
		t.wrong(work, err)
	}
}

func (t *tally) wrong(work string, err error) {
	t.sum.Failed++
	if len(t.sum.Wrong) < mostWrong {
		t.sum.Wrong = append(t.sum.Wrong, fmt.Sprintf("%s: %v", work, err))
	}
}

func (t *tally) snapshot() Tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.sum
	s.Works = maps.Clone(s.Works)
	s.Granted, s.Renewals = int(t.granted.Load()), int(t.renewals.Load())
	return s
}

// add sums up two tallies.
func (t Tally) add(o Tally) Tally {
	t.Granted, t.Renewals, t.Done, t.Refused, t.Failed = t.Granted+o.Granted, t.Renewals+o.Renewals, t.Done+o.Done, t.Refused+o.Refused, t.Failed+o.Failed
	t.Wrong = append(t.Wrong, o.Wrong...)
	works := map[string]int{}
	for _, w := range []map[string]int{t.Works, o.Works} {
		for name, n := range w {
			works[name] += n
		}
	}
	t.Works = works
	return t
}

// errPromise matches what no fault and no slow machine explains. errMissed: what an operation was
// to be about did not come about, such as a wait that ended before it was broken.
var (
	errPromise = errors.New("promise broken")
	errMissed  = errors.New("it did not come about")
)
