// Package keepalive renews leases and closes their trust windows.
//
// One Scheduler serves all leases of a client. It owns a heap of batches, each of
// leases that are due together, and one timer; it has no goroutine while nothing
// is due, and none for a held lease. A batch goes to the engine in one call.
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
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// Keeper is told what happens to a lease. Its methods are called without any
// lock held and must not block. They may end the goroutine (runtime.Goexit).
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

	// The fields below belong to the scheduler's mutex.
	last  error  // of the latest renewal, nil if it succeeded
	batch *batch // nil: not under keepalive
	at    int32  // in the batch
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
	heap    batches
	open    map[sort]*batch // that others may join
	recent  *batch          // the last that was joined
	timer   *time.Timer
	armed   time.Duration // when the timer fires; never: not armed
	stopped bool
}

// New returns a scheduler that renews by e. End it with Stop.
func New(e engine.Engine) *Scheduler {
	ctx, cancel := context.WithCancel(context.Background())
	return &Scheduler{Clock: NewClock(), engine: e, ctx: ctx, cancel: cancel, open: map[sort]*batch{}, armed: never}
}

// Add takes a lease under keepalive. It does nothing after Stop.
func (s *Scheduler) Add(e *Entry, first First) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	due := never
	switch first { // the clock is read here, so that who comes later is due later
	case Usual:
		due = s.Mono() + e.TTL/3
	case Soon:
		now := s.Now()
		due = now.Mono + min(claimDelay, e.Window.Left(now)/4)
	}
	s.place(e, first, due)
}

// Remove ends the keepalive of a lease: after it returns no renewal is sent and
// the keeper hears nothing new, except from a call that was under way.
func (s *Scheduler) Remove(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(e)
}

// Trouble returns the error of the latest renewal, or nil if it succeeded. One
// that has had no answer yet is trouble as well.
func (s *Scheduler) Trouble(e *Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.trouble()
}

func (e *Entry) trouble() error {
	if e.last == nil && e.batch != nil && e.batch.sending {
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
	for _, b := range s.heap {
		b.index = -1
	}
	s.heap, s.open = nil, nil
	s.mu.Unlock()
	s.cancel()
	s.calls.Wait()
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
	in := due - s.Mono()
	if s.timer == nil {
		s.timer = time.AfterFunc(in, s.fire)
	} else {
		s.timer.Reset(in)
	}
}

// fire runs in a goroutine of the timer.
func (s *Scheduler) fire() {
	now := s.Now()
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	s.calls.Add(1)
	defer s.calls.Done()
	rounds, lost := s.collect(now)
	s.armed = never
	s.arm()
	s.mu.Unlock()

	for _, r := range rounds {
		s.calls.Go(func() { s.renew(r) })
	}
	s.each(0, len(lost), func(i int) { lost[i].keeper.Lost(nil, lost[i].last) })
}

// each calls f with i to n−1. A keeper calls hooks of the user, and a hook may end
// the goroutine by runtime.Goexit: another one goes on then.
func (s *Scheduler) each(i, n int, f func(i int)) {
	defer func() {
		if i++; i < n {
			s.calls.Go(func() { s.each(i, n, f) })
		}
	}()
	for ; i < n; i++ {
		f(i)
	}
}

// round is one renewal of a batch.
type round struct {
	batch   *batch
	entries []*Entry // as they were when it began
}

// collect takes what is due out of the heap and puts back what remains to be
// watched. Batches that became small go together.
func (s *Scheduler) collect(now Instant) (rounds []round, lost []loss) {
	var due []*batch
	for len(s.heap) > 0 && s.heap[0].isDue(now) {
		b := heap.Pop(&s.heap).(*batch)
		if b.open {
			s.close(b)
		}
		b.due, lost = b.closing(now, lost)
		switch {
		case len(b.entries) == 0:
		case b.renews():
			due = gather(due, b)
		default:
			heap.Push(&s.heap, b)
		}
	}
	for _, b := range due {
		b.sending = true
		heap.Push(&s.heap, b)
		rounds = append(rounds, round{b, slices.Clone(b.entries)})
	}
	return rounds, lost
}

// isDue tells whether a batch needs something now. Renewals that are nearly due
// go along with others.
func (b *batch) isDue(now Instant) bool {
	if b.renews() {
		return b.due <= now.Mono+slack(b.sort.ttl)
	}
	return b.due <= now.Mono
}

// gather adds a batch to those that are sent, or its entries to one of them.
func gather(due []*batch, b *batch) []*batch {
	for _, into := range slices.Backward(due) {
		if into.sort.ttl == b.sort.ttl && len(into.entries)+len(b.entries) <= batchSize {
			into.take(b)
			into.due = min(into.due, b.due)
			return due
		}
	}
	return append(due, b)
}

// renew sends one batch and applies the answers.
func (s *Scheduler) renew(r round) {
	renewals := make([]engine.Renewal, len(r.entries))
	for i, e := range r.entries {
		renewals[i] = e.Keeper.Renewal()
	}
	ctx, cancel := context.WithTimeout(s.ctx, patience(r.batch.sort.ttl))
	sent := s.Now()
	errs := s.engine.Renew(ctx, renewals)
	cancel()
	s.settle(r, sent, errs)
	s.each(0, len(errs), func(i int) {
		switch e := r.entries[i]; {
		case e == nil: // nobody is told
		case errs[i] == nil:
			e.Keeper.Renewed()
		default:
			fail(e.Keeper, errs[i])
		}
	})
}

// fail tells a keeper why a renewal failed.
func fail(k Keeper, err error) {
	var gone *engine.NotHeldError
	if errors.As(err, &gone) {
		k.Lost(gone, err)
	} else {
		k.Jeopardy(err)
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

// settle takes the answers in. What was removed meanwhile it strikes out of the
// round.
func (s *Scheduler) settle(r round, sent Instant, errs []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		clear(r.entries)
		return
	}
	now, b := s.Now(), r.batch
	b.sending = false
	ttl := b.sort.ttl
	margin := Margin(ttl)
	for i, e := range r.entries {
		if e.batch != b {
			r.entries[i] = nil
			continue
		}
		e.last = errs[i]
		if e.last == nil {
			e.Window.Extend(sent, ttl, margin)
			continue
		}
		b.drop(e)
		if !errors.As(e.last, new(*engine.NotHeldError)) {
			s.place(e, Soon, now.Mono+retryIn(e.Window.Left(now), ttl))
		}
	}
	switch {
	case len(b.entries) > 0:
		b.due = sent.Mono + ttl/3
		heap.Fix(&s.heap, int(b.index))
		s.arm()
	case b.index >= 0:
		heap.Remove(&s.heap, int(b.index))
	}
}
