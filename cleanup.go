package holdfast

import (
	"container/heap"
	"context"
	"errors"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// cleanupMin and cleanupMax bound a clean-up in the background; between
	// them it takes as long as the TTL, after which nothing is left anyway.
	cleanupMin = 5 * time.Second
	cleanupMax = 30 * time.Second
	// cleanupWorkers is how many calls clean up at a time, and cleanupRetries how
	// many of them try again what failed before: a store that hangs holds each of
	// those up for long.
	cleanupWorkers = 32
	cleanupRetries = 4
	// cleanupRest is how long one of the latter rests after a failure, if others
	// wait: the store is away for all of them.
	cleanupRest = 25 * time.Millisecond
	// cleanupMost is how many a client keeps; about 150 bytes each. What is more
	// is left to its TTL.
	cleanupMost = 1 << 18
)

// cleanups is the one queue of what a client has to give back although nobody
// waits for it: attempts without an answer, leases that were lost, and such. There
// may be very many at one moment, when the store goes away. They are released in
// batches by a few goroutines, and tried again until the store has answered, their
// time is over or the client is closed. There is no goroutine while nothing is due.
type cleanups struct {
	c *Client

	mu       sync.Mutex
	first    cleanupHeap // not tried yet
	again    cleanupHeap // tried in vain
	busy     int         // goroutines at work
	retrying int         // of them, those that try again
	hurried  bool        // no first try waits any longer
	timer    *time.Timer
	armed    time.Duration // when it fires; 0: it does not
}

// cleanup is one release that must happen.
type cleanup struct {
	release engine.Release
	from    time.Duration // when it is tried, by the clock of the client
	until   time.Duration // when it is given up
	slow    backoff
	then    *cleanup        // what comes after it
	tell    func(err error) // hears how it ended; nil: nobody wants to know
	closing bool            // Close waits for it, and says itself what was given up
}

// cleanup runs releases that must happen although nobody waits for them, one after
// the other, until they are done, the budget for the TTL is over or the client is
// closed. The channel is closed when the last one has ended.
func (c *Client) cleanup(ttl time.Duration, releases ...engine.Release) <-chan struct{} {
	ended := make(chan struct{})
	now := c.keep.Mono()
	var first *cleanup
	for i := len(releases) - 1; i >= 0; i-- {
		u := &cleanup{release: releases[i], from: now, until: now + cleanupBudget(ttl), then: first}
		if first == nil {
			u.tell = func(error) { close(ended) }
		}
		first = u
	}
	c.cleanups.add(first)
	return ended
}

// cleanupLater is a cleanup that begins after a pause, or when the client is
// closed.
func (c *Client) cleanupLater(pause, ttl time.Duration, r engine.Release) {
	from := c.keep.Mono() + pause
	c.cleanups.add(&cleanup{release: r, from: from, until: from + cleanupBudget(ttl)})
}

func cleanupBudget(ttl time.Duration) time.Duration { return max(cleanupMin, min(ttl, cleanupMax)) }

func (q *cleanups) add(u *cleanup) {
	if !u.closing && !q.c.gate.join() {
		u.end(ErrClosed)
		return
	}
	q.mu.Lock()
	full := !u.closing && len(q.first)+len(q.again) >= cleanupMost
	if !full {
		heap.Push(&q.first, u)
		q.start()
	}
	q.mu.Unlock()
	if full {
		q.giveUp(u, errCleanupsFull)
	}
}

var errCleanupsFull = errors.New("too many clean-ups wait")

// start sees to it that what is due is worked on. The mutex is held.
func (q *cleanups) start() {
	now := q.c.keep.Mono()
	switch {
	case q.busy == cleanupWorkers:
	case q.firstDue(now) || q.againDue(now):
		q.busy++
		go q.work()
	default:
		q.arm()
	}
}

func (q *cleanups) firstDue(now time.Duration) bool {
	return len(q.first) > 0 && (q.hurried || q.first[0].from <= now)
}

func (q *cleanups) againDue(now time.Duration) bool {
	return len(q.again) > 0 && q.retrying < cleanupRetries && q.again[0].from <= now
}

// arm makes the timer fire when the next one is due. The mutex is held.
func (q *cleanups) arm() {
	next := time.Duration(0)
	if len(q.first) > 0 {
		next = q.first[0].from
	}
	if len(q.again) > 0 && q.retrying < cleanupRetries && (next == 0 || q.again[0].from < next) {
		next = q.again[0].from
	}
	if next == 0 || q.armed != 0 && q.armed <= next {
		return
	}
	q.armed = next
	in := next - q.c.keep.Mono()
	if q.timer == nil {
		q.timer = time.AfterFunc(in, q.fire)
	} else {
		q.timer.Reset(in)
	}
}

func (q *cleanups) fire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed = 0
	q.start()
}

// work is one goroutine. It ends when nothing is due for it.
func (q *cleanups) work() {
	counted := true // among those at work
	defer func() {
		if counted { // an engine or a logger has ended the goroutine
			go q.work()
		}
	}()
	for {
		all, again := q.take()
		if len(all) == 0 {
			counted = false
			return
		}
		q.try(all, again)
	}
}

// try makes one call, and rests after one that failed if others wait.
func (q *cleanups) try(all []*cleanup, again bool) {
	if again {
		defer func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.retrying--
		}()
	}
	if answered := q.send(all); again && !answered && q.crowded() {
		sleep(q.c.tasks, cleanupRest)
	}
}

func (q *cleanups) crowded() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.again) > 0
}

// take returns what is released in the next call, and whether it was tried before.
// With nothing due it counts the goroutine out.
func (q *cleanups) take() (all []*cleanup, again bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.c.keep.Mono()
	from := &q.first
	if !q.firstDue(now) {
		if !q.againDue(now) {
			q.busy--
			q.arm()
			return nil, false
		}
		from, again = &q.again, true
		q.retrying++
	}
	for len(*from) > 0 && len(all) < q.c.atOnce() && (!again && q.hurried || (*from)[0].from <= now) {
		all = append(all, heap.Pop(from).(*cleanup))
	}
	q.start() // another one, if there is more
	return all, again
}

// send makes one call, and tells whether any release of it was answered.
func (q *cleanups) send(all []*cleanup) (answered bool) {
	ctx, cancel := context.WithTimeout(q.c.tasks, releaseGrace)
	defer cancel()
	releases, errs := make([]engine.Release, len(all)), []error(nil)
	for i, u := range all {
		releases[i] = u.release
	}
	defer func() { // whatever the engine does
		answered = q.settle(all, errs)
	}()
	errs = q.c.releaseBatch(ctx, releases)
	return false
}

// settle takes the answers in. Without any there was none.
func (q *cleanups) settle(all []*cleanup, errs []error) (answered bool) {
	for i, u := range all {
		err := errNotConfirmed
		if errs != nil {
			err = errs[i]
		}
		var gone *engine.NotHeldError
		if err == nil || errors.As(err, &gone) || errors.Is(err, ErrDenied) {
			answered = true // nothing is left that could be cleaned up
			q.done(u, err)
			continue
		}
		if u.from = q.c.keep.Mono() + u.slow.next(); u.from >= u.until || q.c.tasks.Err() != nil {
			defer q.giveUp(u, err) // last, since a logger may panic
			continue
		}
		q.mu.Lock()
		heap.Push(&q.again, u)
		q.mu.Unlock()
	}
	return answered
}

// done ends a cleanup, and begins the one after it.
func (q *cleanups) done(u *cleanup, err error) {
	if next := u.then; next != nil {
		budget, now := next.until-next.from, q.c.keep.Mono()
		next.from, next.until = now, now+budget
		q.add(next)
	}
	if u.tell != nil {
		u.tell(err)
	}
	q.leave(u)
}

func (q *cleanups) leave(u *cleanup) {
	if !u.closing {
		q.c.gate.leave()
	}
}

// end tells of a cleanup that is not made, and of those after it.
func (u *cleanup) end(err error) {
	for ; u != nil; u = u.then {
		if u.tell != nil {
			u.tell(err)
		}
	}
}

// giveUp leaves a release, and those after it, to the TTL.
func (q *cleanups) giveUp(u *cleanup, err error) {
	u.end(err)
	defer q.leave(u)
	if !u.closing && q.c.journal.admits(&q.c.journal.givenUp) {
		q.c.log.Warn("holdfast: clean-up given up; the lease or wait ends by its TTL",
			"resource", u.release.Resource.Name, "error", err)
	}
}

// hurry makes everything due, since the client closes.
func (q *cleanups) hurry() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hurried = true
	q.start()
}

// stop gives up what is left. The tasks of the client have ended.
func (q *cleanups) stop() {
	q.mu.Lock()
	left := append(q.first, q.again...)
	q.first, q.again = nil, nil
	if q.timer != nil {
		q.timer.Stop()
	}
	q.mu.Unlock()
	for _, u := range left {
		defer q.giveUp(u, context.Cause(q.c.tasks)) // each, although a logger may panic
	}
}

// cleanupHeap is ordered by when a cleanup is due.
type cleanupHeap []*cleanup

func (h cleanupHeap) Len() int           { return len(h) }
func (h cleanupHeap) Less(i, j int) bool { return h[i].from < h[j].from }
func (h cleanupHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *cleanupHeap) Push(x any)        { *h = append(*h, x.(*cleanup)) }
func (h *cleanupHeap) Pop() any {
	old := *h
	u := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return u
}

// batchReleases is how many leases an engine that can releases in one call.
const batchReleases = 512

// atOnce is how many releases go into one call.
func (c *Client) atOnce() int {
	if _, ok := c.engine.(engine.BatchReleaser); ok {
		return batchReleases
	}
	return 1
}

// releaseBatch makes releases in one call, where the engine can.
func (c *Client) releaseBatch(ctx context.Context, all []engine.Release) []error {
	if b, ok := c.engine.(engine.BatchReleaser); ok && len(all) > 1 {
		return b.ReleaseBatch(ctx, all)
	}
	errs := make([]error, len(all))
	for i, r := range all {
		errs[i] = c.engine.Release(ctx, r)
	}
	return errs
}

// backoff grows from 10 ms to 1 s, with jitter.
type backoff struct{ n int }

func (b *backoff) next() time.Duration {
	d := min(10*time.Millisecond<<b.n, time.Second)
	if b.n < 10 {
		b.n++
	}
	return d/2 + mathrand.N(d)
}

// pause waits for the next time; it returns false when ctx ended.
func (b *backoff) pause(ctx context.Context) bool { return sleep(ctx, b.next()) }
