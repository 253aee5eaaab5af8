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
	// mostLanes is how many first renewals are under way at a time: more than an
	// engine has connections for them.
	mostLanes = 16
	// retryLanes is how many renewals are tried again at a time. They have lanes
	// of their own, since a store that hangs holds each of them up for long.
	retryLanes = 4
	// retryRest is how long a lane rests after a failure if others wait. So a
	// store that is away costs a client with very many leases no more than it can
	// spare, and when it is back they follow one another without a pause.
	retryRest = 25 * time.Millisecond
	// leastShare is what a call may take in any case if many wait for a lane.
	leastShare = 250 * time.Millisecond
)

// lanes bound how many calls are under way at a time.
type lanes struct {
	ready []*batch // in the order in which they became due
	busy  int
	most  int
}

func (l *lanes) add(b *batch) {
	b.state = batchReady
	l.ready = append(l.ready, b)
}

// more takes as many lanes into use as there is work for, and says how many. Each
// needs a goroutine.
func (l *lanes) more() int {
	n := min(len(l.ready), l.most-l.busy)
	l.busy += n
	return n
}

// round is one call of the engine.
type round struct {
	entries     []*Entry // as they are when it begins
	batches     []*batch
	least, most time.Duration // TTLs
	patience    time.Duration // how long the call may take
}

// fits tells whether a batch can go along. A short TTL does not wait for the
// answer as long as a long one, nor as often.
func (r *round) fits(b *batch) bool {
	if len(r.batches) == 0 {
		return true
	}
	ttl := b.sort.ttl
	return len(r.entries)+len(b.entries) <= batchSize && ttl <= 2*r.least && r.most <= 2*ttl
}

// take takes a batch along. Where it and the one before are of one sort, they
// become one.
func (s *Scheduler) take(r *round, b *batch) {
	r.entries = append(r.entries, b.entries...)
	if n := len(r.batches); n > 0 && r.batches[n-1].sort == b.sort {
		into := r.batches[n-1]
		into.take(b)
		if b.due < into.due {
			into.due = b.due
			heap.Fix(&s.heap, int(into.index))
		}
		heap.Remove(&s.heap, int(b.index))
		return
	}
	if len(r.batches) == 0 {
		r.least, r.most = b.sort.ttl, b.sort.ttl
	}
	r.least, r.most = min(r.least, b.sort.ttl), max(r.most, b.sort.ttl)
	r.batches = append(r.batches, b)
	b.state = batchSending
}

// drive sends round after round until none is ready.
func (s *Scheduler) drive(l *lanes) {
	given := false // the lane is free again
	defer func() {
		if !given { // a keeper has ended the goroutine
			s.calls.Go(func() { s.drive(l) })
		}
	}()
	for {
		r, ok := s.next(l)
		if !ok {
			given = true
			return
		}
		if s.renew(r) || l != &s.again {
			continue
		}
		if rest := min(retryRest, leastRetry(r.least)); s.crowded(l) {
			t := time.NewTimer(rest)
			select {
			case <-t.C:
			case <-s.ctx.Done():
				t.Stop()
			}
		}
	}
}

func (s *Scheduler) crowded(l *lanes) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(l.ready) > 0
}

// next returns what goes out next: batches that are ready, as many as fit, and
// others that are nearly due. With nothing ready it gives the lane back.
func (s *Scheduler) next(l *lanes) (r round, ok bool) {
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
			s.take(&r, b)
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
	now := s.Mono()
	s.fill(&r, now, l == &s.again)
	r.patience = patience(r.least)
	if turns := waiting / batchSize / l.most; turns > 0 && s.partly {
		// A share of the time that is left, so that the part of the store that hangs
		// does not keep all from asking in time. Where all of it is slow, to give up
		// sooner would only make more work for it.
		left := r.batches[0].due - now
		r.patience = min(r.patience, max(leastShare, left/time.Duration(2*turns)))
	}
	return r, true
}

// fill lets batches go along that are nearly due.
func (s *Scheduler) fill(r *round, now time.Duration, again bool) {
	for len(r.entries) < batchSize {
		b := s.heap[0]
		if !b.renews() || (b.sort.first == retry) != again || b.due > now+slack(b.sort.ttl) || !r.fits(b) {
			return
		}
		if b.open {
			s.close(b)
		}
		if len(b.entries) == 0 {
			heap.Remove(&s.heap, 0)
			continue
		}
		b.due = s.ends(b)
		heap.Fix(&s.heap, 0)
		s.take(r, b)
	}
}

// ends is when the first window of a batch closes.
func (s *Scheduler) ends(b *batch) time.Duration {
	end := never
	for _, e := range b.entries {
		end = min(end, e.Window.End()-s.early(e.TTL))
	}
	return end
}

// renew sends one round and applies the answers. It tells whether any renewal of
// it was answered.
func (s *Scheduler) renew(r round) (answered bool) {
	renewals := make([]engine.Renewal, len(r.entries))
	for i, e := range r.entries {
		renewals[i] = e.Keeper.Renewal()
	}
	ctx, cancel := context.WithTimeout(s.ctx, r.patience)
	sent := s.Now()
	errs := s.engine.Renew(ctx, renewals)
	cancel()
	lost := s.settle(r, sent, errs)
	s.tell(lost)
	answered = len(lost) > 0 || slices.Contains(errs, nil)
	s.each(0, len(errs), func(i int) {
		switch e := r.entries[i]; {
		case e == nil: // nobody is told, or it was lost
		case errs[i] == nil:
			e.Keeper.Renewed()
		default:
			e.Keeper.Jeopardy(errs[i])
		}
	})
	return answered
}

// patience is how long a renewal may take before it counts as failed.
func patience(ttl time.Duration) time.Duration {
	return max(25*time.Millisecond, min(ttl/4, 2*time.Second))
}

// retryIn is how long after a failed renewal the next one is sent: a twentieth of
// what is left of the window, so that a long lease does not hammer a store that
// is away for hours, and a short one still gets its chances.
func retryIn(left, ttl time.Duration) time.Duration {
	return max(leastRetry(ttl), min(left/20, 5*time.Second))
}

func leastRetry(ttl time.Duration) time.Duration {
	return max(5*time.Millisecond, min(ttl/100, 100*time.Millisecond))
}

// settle takes the answers in, and returns the leases that the store says are not
// held. These, and what was removed meanwhile, it strikes out of the round.
func (s *Scheduler) settle(r round, sent Instant, errs []error) (lost []loss) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		clear(r.entries)
		return nil
	}
	now := s.Now()
	left := never
	var failed []*Entry
	for i, e := range r.entries {
		b := e.batch
		if b == nil || b.state != batchSending {
			r.entries[i] = nil
			continue
		}
		s.note(e, errs[i])
		if errs[i] == nil {
			e.Window.Extend(sent, e.TTL, Margin(e.TTL))
			continue
		}
		s.drop(e)
		var gone *engine.NotHeldError
		if errors.As(errs[i], &gone) {
			lost = append(lost, loss{e.Keeper, gone, errs[i]})
			r.entries[i] = nil
			continue
		}
		left = min(left, e.Window.Left(now))
		failed = append(failed, e)
	}
	for _, b := range r.batches {
		b.state, b.sort.first = batchIdle, Usual
		switch {
		case len(b.entries) > 0:
			b.due = sent.Mono + b.sort.ttl/3
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

// retry puts those of a round together again whose renewal failed, so that they
// stay together.
func (s *Scheduler) retry(failed []*Entry, now Instant, left time.Duration) {
	s.troubled += len(failed) // as it was before they left their batches
	for _, e := range failed {
		s.place(e, retry, now.Mono+retryIn(left, e.TTL))
	}
}
