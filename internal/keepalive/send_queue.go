package keepalive

import (
	"container/heap"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// maxCalls is how many calls of first renewals are under way at a time: more than
	// an engine has connections for them.
	maxCalls = 16
	// maxRetries is how many calls of retries are under way at a time. They have a
	// queue of their own, since a store that hangs blocks each of them for long.
	maxRetries = 4
	// retryPause is the pause after a retry that failed while more batches wait. It
	// bounds the work of a client with very many leases while the store is away;
	// after a success the next retry follows at once.
	retryPause = 25 * time.Millisecond
	// minShare is the least timeout of a call while many batches wait.
	minShare = 250 * time.Millisecond
)

// sendQueue is the batches to be renewed, of which so many calls are under way at a time.
type sendQueue struct {
	ready []*batch // in the order in which they became due
	busy  int
	most  int
}

func (l *sendQueue) add(b *batch) {
	b.state = batchReady
	l.ready = append(l.ready, b)
}

// start returns how many more calls can be under way now, and counts them as busy. Each
// needs a goroutine that runs sendReady.
func (l *sendQueue) start() int {
	n := min(len(l.ready), l.most-l.busy)
	l.busy += n
	return n
}

// renewalCall is one call of the engine.
type renewalCall struct {
	entries     []*Entry // as they are when it begins
	batches     []*batch
	least, most time.Duration // TTLs
	timeout     time.Duration // how long the call may take
}

// fits reports whether a batch can be added. TTLs of one call differ by a factor of two
// at most, since its timeout follows from the shortest.
func (r *renewalCall) fits(b *batch) bool {
	if len(r.batches) == 0 {
		return true
	}
	ttl := b.key.ttl
	return len(r.entries)+len(b.entries) <= batchSize && ttl <= 2*r.least && r.most <= 2*ttl
}

// addBatch adds a batch to a call, and merges it with the one before if both have the same key.
func (s *Scheduler) addBatch(r *renewalCall, b *batch) {
	r.entries = append(r.entries, b.entries...)
	if n := len(r.batches); n > 0 && r.batches[n-1].key == b.key {
		into := r.batches[n-1]
		into.merge(b)
		if b.due < into.due {
			into.due = b.due
			heap.Fix(&s.heap, int(into.index))
		}
		heap.Remove(&s.heap, int(b.index))
		return
	}
	if len(r.batches) == 0 {
		r.least, r.most = b.key.ttl, b.key.ttl
	}
	r.least, r.most = min(r.least, b.key.ttl), max(r.most, b.key.ttl)
	r.batches = append(r.batches, b)
	b.state = batchSending
}

// sendReady makes one call after the other until no batch is ready.
func (s *Scheduler) sendReady(l *sendQueue) {
	ended := false
	defer func() {
		if !ended { // a keeper has ended the goroutine
			s.calls.Go(func() { s.sendReady(l) })
		}
	}()
	for {
		r, ok := s.next(l)
		if !ok {
			ended = true
			return
		}
		if s.renew(r) || l != &s.again {
			continue
		}
		if rest := min(retryPause, leastRetry(r.least)); s.waiting(l) {
			select {
			case <-time.After(rest):
			case <-s.ctx.Done():
			}
		}
	}
}

func (s *Scheduler) waiting(l *sendQueue) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(l.ready) > 0
}

// next returns the next call: batches that are ready, as many as fit, and others
// that are nearly due. If none is ready, one call fewer is busy and ok is false.
func (s *Scheduler) next(l *sendQueue) (r renewalCall, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return r, false
	}
	left, waiting := l.ready[:0], 0
	for _, b := range l.ready {
		switch {
		case b.index < 0: // nobody is left in it
		case r.fits(b):
			s.addBatch(&r, b)
		default:
			left = append(left, b)
			waiting += len(b.entries)
		}
	}
	clear(l.ready[len(left):])
	l.ready = left
	if len(r.batches) == 0 {
		l.busy--
		return r, false
	}
	now := s.Now()
	s.fill(&r, now, l == &s.again)
	r.timeout = renewalTimeout(r.least)
	if turns := waiting / batchSize / l.most; turns > 0 && s.partly {
		// A share of the time that is left, so that a part of the store that hangs
		// does not delay all others. If all of the store is slow, a shorter timeout
		// would only add work.
		left := r.batches[0].due - now.Mono
		r.timeout = min(r.timeout, max(minShare, left/time.Duration(2*turns)))
	}
	return r, true
}

// fill adds batches that are nearly due.
func (s *Scheduler) fill(r *renewalCall, now Moment, again bool) {
	for len(r.entries) < batchSize {
		b := s.heap[0]
		if !b.renews() || (b.key.first == retry) != again || b.due > now.Mono+slack(b.key.ttl) || !r.fits(b) {
			return
		}
		if b.open {
			s.close(b)
		}
		if len(b.entries) == 0 {
			heap.Remove(&s.heap, 0)
			continue
		}
		b.due = s.ends(b, now)
		heap.Fix(&s.heap, 0)
		s.addBatch(r, b)
	}
}

// ends is when the first window of a batch closes.
func (s *Scheduler) ends(b *batch, now Moment) time.Duration {
	end := never
	for _, e := range b.entries {
		end = min(end, e.closes(now, s.troubled))
	}
	return end
}

// renew makes one call and applies the answers. It reports whether any renewal was
// answered.
func (s *Scheduler) renew(r renewalCall) (answered bool) {
	renewals := make([]engine.Renewal, len(r.entries))
	for i, e := range r.entries {
		renewals[i] = e.Keeper.Renewal()
	}
	ctx, cancel := context.WithTimeout(s.ctx, r.timeout)
	sent := s.Now()
	errs := s.engine.Renew(ctx, renewals)
	took := s.Mono() - sent.Mono
	cancel()
	lost := s.settle(r, sent, errs)
	s.notifyLost(lost)
	answered = len(lost) > 0 || slices.Contains(errs, nil)
	s.forEach(0, len(errs), func(i int) {
		switch e := r.entries[i]; {
		case e == nil: // removed or lost
		case errs[i] == nil:
			e.Keeper.Renewed(took)
		default:
			e.Keeper.Jeopardy(errs[i], took)
		}
	})
	return answered
}

// renewalTimeout is how long a renewal may take before it counts as failed.
func renewalTimeout(ttl time.Duration) time.Duration {
	return max(25*time.Millisecond, min(ttl/4, 2*time.Second))
}

// retryIn is how long after a failed renewal the next one is sent: a twentieth of
// what is left of the window, so that a long lease does not load a store that is
// away for hours, and a short one still has several attempts.
func retryIn(left, ttl time.Duration) time.Duration {
	return max(leastRetry(ttl), min(left/20, 5*time.Second))
}

func leastRetry(ttl time.Duration) time.Duration {
	return max(5*time.Millisecond, min(ttl/100, 100*time.Millisecond))
}

// settle applies the answers, and returns the leases that are not held any more. It
// sets their entries in r to nil, and those of entries that were removed meanwhile.
func (s *Scheduler) settle(r renewalCall, sent Moment, errs []error) (lost []loss) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		clear(r.entries)
		return nil
	}
	now := s.Now()
	s.look(now)
	left := never
	var failed []*Entry
	for i, e := range r.entries {
		b := e.batch
		if b == nil || b.state != batchSending {
			r.entries[i] = nil
			continue
		}
		s.record(e, errs[i])
		if errs[i] == nil {
			e.Window.Extend(sent, e.TTL, Margin(e.TTL))
			continue
		}
		s.drop(e)
		if gone, ok := errors.AsType[*engine.NotHeldError](errs[i]); ok {
			lost = append(lost, loss{e.Keeper, gone, errs[i]})
			r.entries[i] = nil
			continue
		}
		left = min(left, e.Window.Left(now))
		failed = append(failed, e)
	}
	for _, b := range r.batches {
		b.state, b.key.first = batchIdle, Usual
		switch {
		case len(b.entries) > 0:
			b.due = now.Mono + b.key.ttl/3 - now.since(sent)
			heap.Fix(&s.heap, int(b.index))
		case b.index >= 0:
			heap.Remove(&s.heap, int(b.index))
		}
	}
	if len(failed) < len(errs) {
		s.partly = len(failed) > 0
	}
	s.retry(failed, now, left)
	s.arm()
	return lost
}

// retry schedules the entries whose renewal failed, so that they stay in one batch.
func (s *Scheduler) retry(failed []*Entry, now Moment, left time.Duration) {
	s.troubled += len(failed) // as it was before they left their batches
	for _, e := range failed {
		s.place(e, retry, now.Mono+retryIn(left, e.TTL), now)
	}
}
