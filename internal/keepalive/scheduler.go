// Package keepalive renews leases and closes their trust windows.
//
// One Scheduler serves all leases of a client. It owns a heap of what is due and
// one timer; it has no goroutine while nothing is due, and none for a held
// lease. Renewals that are due together go to the engine as one batch.
//
// A renewal that fails is tried again until the trust window ends; then the
// lease is lost, and the holder is told before the store can pass the lease on.
// A renewal answered "not held" is lost at once.
package keepalive

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// batchSize bounds one call of the engine, so that a slow batch does not hold
// up the others for long.
const batchSize = 512

// Keeper is told what happens to a lease. Its methods are called without any
// lock held and must not block.
type Keeper interface {
	// Renewal is what to send to the engine.
	Renewal() engine.Renewal
	// Renewed: the lease was extended.
	Renewed()
	// Jeopardy: a renewal failed; it is tried again while the window is open.
	Jeopardy(err error)
	// Lost: the store said why the lease is not held, or the trust window
	// closed. In the second case cause is nil, and last is the error of the
	// latest failed renewal, if one failed.
	Lost(cause *engine.NotHeldError, last error)
}

// errNoAnswer is the trouble of a renewal that is still under way when the trust
// window closes.
var errNoAnswer = fmt.Errorf("%w: a renewal has had no answer", engine.ErrUnavailable)

// Entry is a lease under keepalive. Fill the exported fields, start Window by the
// scheduler's clock, and give it to Scheduler.Add. It is kept small, since there is
// one for each lease: instants are numbers, and what to send the keeper knows.
type Entry struct {
	Window Window
	TTL    time.Duration
	Keeper Keeper

	// The fields below belong to the scheduler's mutex. Instants are those of its
	// monotonic clock.
	renewAt time.Duration // never: not at all
	due     time.Duration
	last    error // of the latest renewal, nil if it succeeded
	index   int32 // in the heap; -1 outside
	added   bool
	sending bool
}

// never is later than everything else.
const never time.Duration = math.MaxInt64

// First says when an entry is renewed for the first time.
type First uint8

const (
	// Usual: after a third of the TTL.
	Usual First = iota
	// Soon: the lease was granted with a claim window only. The renewal is put
	// off a little, since a lease that is released within that time does not
	// need one.
	Soon
	// Never: the lease is not renewed, only its window is watched.
	Never
)

// claimDelay is how long a claim waits for a quick release.
const claimDelay = 100 * time.Millisecond

// Scheduler renews leases. See New.
type Scheduler struct {
	Clock

	engine engine.Engine
	ctx    context.Context
	cancel context.CancelFunc
	calls  sync.WaitGroup

	mu      sync.Mutex
	heap    entries
	timer   *time.Timer
	armed   time.Duration // when the timer fires; never: not armed
	stopped bool
}

// New returns a scheduler that renews by e. End it with Stop.
func New(e engine.Engine) *Scheduler {
	ctx, cancel := context.WithCancel(context.Background())
	return &Scheduler{Clock: NewClock(), engine: e, ctx: ctx, cancel: cancel, armed: never}
}

// Add takes a lease under keepalive. It does nothing after Stop.
func (s *Scheduler) Add(e *Entry, first First) {
	now := s.Now()
	switch first {
	case Usual:
		e.renewAt = now.Mono + e.TTL/3
	case Soon:
		e.renewAt = now.Mono + min(claimDelay, e.Window.Left(now)/4)
	case Never:
		e.renewAt = never
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	e.added, e.index = true, -1
	s.place(e)
}

// Remove ends the keepalive of a lease: after it returns no renewal is sent and
// the keeper hears nothing new, except from a call that was under way.
func (s *Scheduler) Remove(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.added = false
	if i := int(e.index); i >= 0 && len(s.heap) > i && s.heap[i] == e {
		heap.Remove(&s.heap, i)
	}
}

// Trouble returns the error of the latest renewal, or nil if it succeeded. One
// that has had no answer yet is trouble as well.
func (s *Scheduler) Trouble(e *Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.trouble()
}

func (e *Entry) trouble() error {
	if e.last == nil && e.sending {
		return errNoAnswer
	}
	return e.last
}

// Stop ends all keepalive and waits for calls under way.
func (s *Scheduler) Stop() {
	s.mu.Lock()
	s.stopped = true
	if s.timer != nil {
		s.timer.Stop()
	}
	s.heap = nil
	s.mu.Unlock()
	s.cancel()
	s.calls.Wait()
}

// place puts an entry where its next event belongs and arms the timer.
func (s *Scheduler) place(e *Entry) {
	e.due = e.Window.End()
	if !e.sending {
		e.due = min(e.due, e.renewAt)
	}
	if e.index < 0 {
		heap.Push(&s.heap, e)
	} else {
		heap.Fix(&s.heap, int(e.index))
	}
	s.arm()
}

// arm makes the timer fire no later than the first event. A timer that fires
// too early costs one look and is left alone: so a lock taken and released at
// once touches no timer.
func (s *Scheduler) arm() {
	if len(s.heap) == 0 || s.stopped {
		return
	}
	due := s.heap[0].due
	if due >= s.armed {
		return
	}
	s.armed = due
	in := due - s.Now().Mono
	if s.timer == nil {
		s.timer = time.AfterFunc(in, s.fire)
	} else {
		s.timer.Reset(in)
	}
}

// fire runs in a goroutine of the timer.
func (s *Scheduler) fire() {
	now := s.Now()
	var lost, renew []*Entry
	var troubles []error // of the lost ones
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	s.calls.Add(1)
	defer s.calls.Done()
	for len(s.heap) > 0 && s.isDue(s.heap[0], now) {
		e := s.heap[0]
		if e.Window.Left(now) <= 0 {
			heap.Pop(&s.heap)
			e.added = false
			lost, troubles = append(lost, e), append(troubles, e.trouble())
			continue
		}
		e.sending = true
		renew = append(renew, e)
		e.due = e.Window.End()
		heap.Fix(&s.heap, int(e.index))
	}
	s.armed = never
	s.arm()
	s.mu.Unlock()

	for i, e := range lost {
		e.Keeper.Lost(nil, troubles[i])
	}
	for len(renew) > batchSize {
		batch := renew[:batchSize]
		renew = renew[batchSize:]
		s.calls.Go(func() { s.renew(batch) })
	}
	if len(renew) > 0 {
		s.renew(renew)
	}
}

// isDue tells whether an entry needs something now. Renewals that are nearly
// due go along in the same batch.
func (s *Scheduler) isDue(e *Entry, now Instant) bool {
	if e.Window.Left(now) <= 0 {
		return true
	}
	slack := min(e.TTL/60, 50*time.Millisecond)
	return !e.sending && e.renewAt <= now.Mono+slack
}

// renew sends one batch and applies the answers.
func (s *Scheduler) renew(batch []*Entry) {
	renewals := make([]engine.Renewal, len(batch))
	limit := patience(batch[0].TTL)
	for i, e := range batch {
		renewals[i] = e.Keeper.Renewal()
		limit = min(limit, patience(e.TTL))
	}
	ctx, cancel := context.WithTimeout(s.ctx, limit)
	sent := s.Now()
	errs := s.engine.Renew(ctx, renewals)
	cancel()
	for i, e := range batch {
		s.apply(e, sent, errs[i])
	}
}

// patience is how long a renewal may take before it counts as failed.
func patience(ttl time.Duration) time.Duration {
	return max(25*time.Millisecond, min(ttl/4, 2*time.Second))
}

// retryIn is how long after a failed renewal the next one is sent: a twentieth of
// what is left of the window, so that a long lease does not hammer a store that
// is away for hours, and a short one still gets its chances.
func retryIn(left, ttl time.Duration) time.Duration {
	least := max(5*time.Millisecond, min(ttl/100, 100*time.Millisecond))
	return max(least, min(left/20, 5*time.Second))
}

// apply takes one answer in.
func (s *Scheduler) apply(e *Entry, sent Instant, err error) {
	now := s.Now()
	var gone *engine.NotHeldError
	isGone := errors.As(err, &gone)
	s.mu.Lock()
	e.sending = false
	if !e.added || s.stopped {
		s.mu.Unlock()
		return
	}
	e.last = err
	switch {
	case err == nil:
		e.Window.Extend(sent, e.TTL, Margin(e.TTL))
		e.renewAt = sent.Mono + e.TTL/3
	case isGone:
		e.added = false
		if e.index >= 0 {
			heap.Remove(&s.heap, int(e.index))
		}
	default:
		e.renewAt = now.Mono + retryIn(e.Window.Left(now), e.TTL)
	}
	if e.added {
		s.place(e)
	}
	s.mu.Unlock()

	switch {
	case err == nil:
		e.Keeper.Renewed()
	case isGone:
		e.Keeper.Lost(gone, err)
	default:
		e.Keeper.Jeopardy(err)
	}
}

// entries is a heap by due time.
type entries []*Entry

func (h entries) Len() int           { return len(h) }
func (h entries) Less(i, j int) bool { return h[i].due < h[j].due }
func (h entries) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = int32(i), int32(j) }
func (h *entries) Push(x any)        { e := x.(*Entry); e.index = int32(len(*h)); *h = append(*h, e) }
func (h *entries) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	e.index = -1
	return e
}
