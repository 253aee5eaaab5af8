// Package keepalive renews leases and closes their trust windows.
//
// One Scheduler serves all leases of a client. It owns a heap of batches, each of
// leases that are due together, and one timer. It has no goroutine for a held lease,
// and none while nothing is due. Batches that are due are sent to the engine
// together, as many as fit into one call, and the number of calls in flight is
// bounded.
//
// A renewal that fails is retried until the trust window ends. Then the lease is
// lost, and its holder is notified before the store can grant the lease to another.
// If the answer to a renewal is "not held", the lease is lost at once. However many
// leases are lost at one moment, all holders are notified before any other work for
// them.
package keepalive

import (
	"container/heap"
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// Keeper receives what happens to a lease. Its methods are called without any lock
// held and must not block. Except Lost, they may end the goroutine (runtime.Goexit).
type Keeper interface {
	// Renewal is what to send to the engine.
	Renewal() engine.Renewal
	// Renewed: the lease was extended, by a call of the engine that took so long.
	Renewed(took time.Duration)
	// Jeopardy: a renewal failed; it is retried while the window is open.
	Jeopardy(err error, took time.Duration)
	// Lost: the store answered that the lease is not held, or the trust window
	// closed. In the second case cause is nil, and last is the error of the
	// latest failed renewal, if one failed.
	//
	// Other leases may be lost at the same moment, so Lost only notifies the holder. It
	// returns further work, or nil: free runs when all holders are notified, and lets others
	// have what the lease has kept from them; report runs after free of all these leases, and
	// may take long.
	Lost(cause *engine.NotHeldError, last error) (free, report func())
}

// errNoAnswer is the error of a renewal that is still in flight when the trust window
// closes.
var errNoAnswer = fmt.Errorf("%w: no answer to a renewal", engine.ErrUnavailable)

// Entry is a lease under keepalive. Fill the exported fields, start Window by the
// scheduler's clock, and pass it to Scheduler.Add. It is small, since there is one for
// each lease: instants are numbers, and the renewal to send comes from the Keeper.
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

// First is when an entry is renewed for the first time.
type First uint8

const (
	// Usual: a third of the TTL after the request for the lease was sent, as after a renewal. If
	// little of that is left, after claimDelay or less.
	Usual First = iota
	// Never: the lease is not renewed, only its window is watched.
	Never
	// soon: the lease was granted with a claim window, or the grant took long.
	soon
	// retry: the latest renewal failed.
	retry
)

// claimDelay is how long the renewal of a claim waits at most: a lease that is released within that
// time needs none.
const claimDelay = 100 * time.Millisecond

// Scheduler renews leases. See New.
type Scheduler struct {
	Clock

	engine engine.Engine
	ctx    context.Context
	cancel context.CancelFunc
	calls  sync.WaitGroup

	mu       sync.Mutex
	heap     batches
	open     map[batchKey]*batch // that accept entries
	recent   *batch              // the last that got an entry
	first    sendQueue           // renewals that are due
	again    sendQueue           // those that failed before
	troubled int                 // entries whose latest renewal failed
	partly   bool                // the latest call with an answer had failed renewals as well
	timer    *time.Timer
	armed    time.Duration // when the timer fires; never: not armed
	ahead    int64         // the wall clock less the monotonic one, when what is due was last moved
	stopped  bool
}

// New returns a scheduler that renews by e. End it with Stop.
func New(e engine.Engine) *Scheduler {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Scheduler{
		Clock: NewClock(), engine: e, ctx: ctx, cancel: cancel, open: map[batchKey]*batch{}, armed: never,
		first: sendQueue{most: maxCalls}, again: sendQueue{most: maxRetries},
	}
	s.ahead = s.Now().ahead()
	return s
}

// Add takes a lease under keepalive. It does nothing after Stop.
func (s *Scheduler) Add(e *Entry, first First) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	e.last = nil // of a keepalive before, in which it counts no more
	// The clocks are read here, so that what is added later is due later.
	now, due := s.Now(), never
	s.look(now)
	if first == Usual {
		first, due = e.firstDue(now)
	}
	s.place(e, first, due, now)
}

// firstDue returns when a lease is renewed for the first time. A request that has taken no longer than
// the slack counts from now, so that leases that are granted at about the same time are in order.
func (e *Entry) firstDue(now Moment) (First, time.Duration) {
	left := e.Window.Left(now)
	took := e.TTL - Margin(e.TTL) - left
	usual, delay := e.TTL/3, min(claimDelay, left/4)
	if took > slack(e.TTL) {
		usual -= took
	}
	if usual < delay {
		return soon, now.Mono + delay
	}
	return Usual, now.Mono + usual
}

// Remove ends the keepalive of a lease: after it returns no renewal is sent and
// the keeper is not called, except for a call that was under way.
func (s *Scheduler) Remove(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(e)
}

// Trouble returns the error of the latest renewal, or nil if it succeeded. A renewal
// without an answer yet is an error too.
func (s *Scheduler) Trouble(e *Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return e.trouble()
}

func (e *Entry) trouble() error {
	if e.last == nil && e.batch != nil && e.batch.state != batchIdle {
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

// arm makes the timer fire no later than the first event, and within lookEvery. A timer that
// fires too early only looks at the clocks, so it is not reset: a lock that is acquired and
// released at once touches no timer.
func (s *Scheduler) arm() {
	if len(s.heap) == 0 || s.stopped {
		return
	}
	due := s.heap[0].due
	if due >= s.armed {
		return
	}
	now := s.Mono()
	in := min(due-now, lookEvery)
	s.armed = now + in
	if s.timer == nil {
		s.timer = time.AfterFunc(in, s.fire)
	} else {
		s.timer.Reset(in)
	}
}

// fire runs in a goroutine of the timer.
func (s *Scheduler) fire() {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return
	}
	s.calls.Add(1)
	defer s.calls.Done()
	now := s.Now()
	s.look(now)
	lost := s.collect(now)
	s.armed = never
	s.arm()
	first, again := s.first.start(), s.again.start()
	s.mu.Unlock()

	own := first > 0 && len(lost) == 0 // the last call is this goroutine's
	if own {
		first--
	}
	for range first {
		s.calls.Go(func() { s.sendReady(&s.first) })
	}
	for range again {
		s.calls.Go(func() { s.sendReady(&s.again) })
	}
	s.notifyLost(lost)
	if own {
		s.sendReady(&s.first)
	}
}

// notifyLost notifies all holders first, without work that may take time in between. What
// they have lost is freed before any loss is reported, since reports may be slow.
func (s *Scheduler) notifyLost(lost []loss) {
	var rest, reports []func()
	for _, l := range lost {
		free, report := l.keeper.Lost(l.cause, l.last)
		if free != nil {
			rest = append(rest, free)
		}
		if report != nil {
			reports = append(reports, report)
		}
	}
	rest = append(rest, reports...)
	s.forEach(0, len(rest), func(i int) { rest[i]() })
}

// forEach calls f with i to n−1. A keeper calls hooks of the user, and a hook may end
// the goroutine by runtime.Goexit: then another goroutine continues.
func (s *Scheduler) forEach(i, n int, f func(i int)) {
	defer func() {
		if i++; i < n {
			s.calls.Go(func() { s.forEach(i, n, f) })
		}
	}()
	for ; i < n; i++ {
		f(i)
	}
}

// collect removes the entries whose windows have closed, and queues the batches that
// are to be renewed.
func (s *Scheduler) collect(now Moment) (lost []loss) {
	troubled := s.troubled
	for len(s.heap) > 0 && s.heap[0].due <= now.Mono {
		b := s.heap[0]
		renews := b.renews()
		if b.open {
			s.close(b)
		}
		b.due, lost = s.closing(b, now, troubled, lost)
		if len(b.entries) == 0 {
			heap.Remove(&s.heap, 0)
			continue
		}
		heap.Fix(&s.heap, 0)
		switch {
		case renews && b.key.first == retry:
			s.again.add(b)
		case renews:
			s.first.add(b)
		}
	}
	return lost
}

// notifyTime is how long it may take to notify one of many holders on a busy machine.
const notifyTime = 2 * time.Microsecond

// early is how long before the end of its window the holder of a lease is notified. If very
// many leases are in trouble, which may be lost together, it is the time to notify all of them,
// up to 2 % of the TTL, so that the last one is notified in time too.
func early(ttl time.Duration, troubled int) time.Duration {
	if troubled <= 2*batchSize {
		return 0
	}
	return min(time.Duration(troubled)*notifyTime, ttl/50)
}

// closes is when the holder of a lease is notified that its window closes, by the clock by which that is sooner, if so many
// leases are in trouble.
func (e *Entry) closes(now Moment, troubled int) time.Duration {
	return now.Mono + e.Window.Left(now) - early(e.TTL, troubled)
}

// Late returns the number of entries whose latest renewal failed.
func (s *Scheduler) Late() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.troubled
}

// record stores the outcome of a renewal.
func (s *Scheduler) record(e *Entry, err error) {
	switch {
	case e.last == nil && err != nil:
		s.troubled++
	case e.last != nil && err == nil:
		s.troubled--
	}
	e.last = err
}
