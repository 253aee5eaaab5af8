package holdfast

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

const (
	// releaseRetryMin is how long a release is retried in the background at least. A lease
	// is for as long as its TTL, after which nothing is left; a request of unknown outcome,
	// of which there is a new one with each try while the store is away, for releaseRetryMax.
	releaseRetryMin = 5 * time.Second
	releaseRetryMax = 30 * time.Second
	// releaseSlower is after how many tries of a release their pauses grow without an end.
	releaseSlower = 32
	// releaseWorkers is how many calls run at a time, and releaseRetries how many of
	// them are retries: a store that hangs delays each of those for long.
	releaseWorkers = 32
	releaseRetries = 4
	// releaseRetryPause is the pause of a worker after a failed retry, if others wait:
	// the store is away for all of them.
	releaseRetryPause = 25 * time.Millisecond
	// releaseQueueMax is how many releases a client keeps, at about 150 bytes each.
	// Leases beyond that are left to their TTL.
	releaseQueueMax = 1 << 18
)

// releaseQueue is the one queue of releases that a client makes in the background: of
// attempts without an answer, of leases that were lost, and such. When the store goes away
// there may be 100,000 at one moment. A few goroutines send them in batches and retry them
// until the store has answered, their time is over or the client is closed. No goroutine
// runs while no release is due.
type releaseQueue struct {
	c *Client

	mu       sync.Mutex
	first    releaseHeap // not sent yet
	again    releaseHeap // failed before
	busy     int         // worker goroutines
	retrying int         // workers that retry
	hurried  bool        // no first try is delayed any more
	timer    *time.Timer
	armed    time.Duration // when it fires; 0: it does not

	unreleased closeError // leases whose release ended without an answer while the client was closed
}

// queuedRelease is one release that must happen.
type queuedRelease struct {
	release engine.Release
	from    time.Duration // when it is sent next, by the clock of the client
	until   time.Duration // when it is left to the TTL
	over    time.Duration // when the lease has ended by its TTL in any case; 0: not known
	slow    backoff
	then    *queuedRelease  // follows when this one has ended; nil: none
	confirm func(err error) // receives the outcome; may be nil
	closing bool            // of Close, which waits for it and reports failures itself
}

// queueRelease makes releases in the background, one after the other, until they are
// confirmed, the time for the TTL is over or the client is closed. The channel is closed
// when the last one has ended.
func (c *Client) queueRelease(ttl time.Duration, releases ...engine.Release) <-chan struct{} {
	ended := make(chan struct{})
	now := c.keep.Mono()
	var first *queuedRelease
	for i := len(releases) - 1; i >= 0; i-- {
		u := &queuedRelease{release: releases[i], from: now, until: now + releaseBudget(releases[i], ttl), over: now + ttl, then: first}
		if first == nil {
			u.confirm = func(error) { close(ended) }
		}
		first = u
	}
	c.releases.add(first)
	return ended
}

// queueReleaseAfter is queueRelease that begins after a pause, or when the client is
// closed.
func (c *Client) queueReleaseAfter(pause, ttl time.Duration, r engine.Release) {
	from := c.keep.Mono() + pause
	c.releases.add(&queuedRelease{release: r, from: from, until: from + releaseBudget(r, ttl), over: from + ttl})
}

func releaseBudget(r engine.Release, ttl time.Duration) time.Duration {
	if r.Token == 0 {
		ttl = min(ttl, releaseRetryMax)
	}
	return max(releaseRetryMin, ttl)
}

func (q *releaseQueue) add(u *queuedRelease) {
	if !u.closing && !q.c.gate.JoinCleanup() {
		u.report(ErrClosed)
		return
	}
	q.mu.Lock()
	full := !u.closing && len(q.first)+len(q.again) >= releaseQueueMax
	if !full {
		heap.Push(&q.first, u)
		q.start()
	}
	q.mu.Unlock()
	if full {
		q.fail(u, errReleaseQueueFull)
	}
}

var errReleaseQueueFull = errors.New("too many releases are queued")

// start starts a worker if something is due, or arms the timer. The mutex is held.
func (q *releaseQueue) start() {
	now := q.c.keep.Mono()
	switch {
	case q.busy == releaseWorkers:
	case q.firstDue(now) || q.againDue(now):
		q.busy++
		go q.work()
	default:
		q.arm()
	}
}

func (q *releaseQueue) firstDue(now time.Duration) bool {
	return len(q.first) > 0 && (q.hurried || q.first[0].from <= now)
}

func (q *releaseQueue) againDue(now time.Duration) bool {
	return len(q.again) > 0 && q.retrying < releaseRetries && q.again[0].from <= now
}

// arm arms the timer for the next release that is due. The mutex is held.
func (q *releaseQueue) arm() {
	next := time.Duration(0)
	if len(q.first) > 0 {
		next = q.first[0].from
	}
	if len(q.again) > 0 && q.retrying < releaseRetries && (next == 0 || q.again[0].from < next) {
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

func (q *releaseQueue) fire() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed = 0
	q.start()
}

// work is one worker. It ends when nothing is due.
func (q *releaseQueue) work() {
	counted := true // as one of q.busy
	defer func() {
		if counted { // the engine or the logger has ended the goroutine
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

// try makes one call. After a failure it pauses if other releases wait.
func (q *releaseQueue) try(all []*queuedRelease, again bool) {
	if again {
		defer func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.retrying--
		}()
	}
	if answered := q.send(all); again && !answered && q.crowded() {
		sleep(q.c.tasks, releaseRetryPause)
	}
}

func (q *releaseQueue) crowded() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.again) > 0
}

// take returns the releases of the next call, and whether they are retries. If nothing is
// due, it counts the worker out.
func (q *releaseQueue) take() (all []*queuedRelease, again bool) {
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
		all = append(all, heap.Pop(from).(*queuedRelease))
	}
	q.start() // another one, if there is more
	return all, again
}

// send makes one call and reports whether any release of it was answered.
func (q *releaseQueue) send(all []*queuedRelease) (answered bool) {
	ctx, cancel := context.WithTimeout(q.c.tasks, releaseGrace)
	defer cancel()
	releases, errs := make([]engine.Release, len(all)), []error(nil)
	for i, u := range all {
		releases[i] = u.release
	}
	defer func() { // also if the engine panics
		answered = q.settle(all, errs)
	}()
	errs = q.c.releaseBatch(ctx, releases)
	return false
}

// settle handles the answers of a call. If errs is nil, there was none.
func (q *releaseQueue) settle(all []*queuedRelease, errs []error) (answered bool) {
	for i, u := range all {
		err := errNotConfirmed
		if errs != nil {
			err = errs[i]
		}
		if isFinal(err) {
			answered = true
			q.confirmed(u, err)
			continue
		}
		now := q.c.keep.Mono()
		if now >= u.until || q.c.tasks.Err() != nil {
			defer q.fail(u, err) // last, since a logger may panic
			continue
		}
		pause := u.slow.next()
		pause *= time.Duration(1 + u.slow.n/releaseSlower)
		u.from = min(now+pause, u.until) // the last try is at the end, not up to a pause before it
		q.mu.Lock()
		heap.Push(&q.again, u)
		q.mu.Unlock()
	}
	return answered
}

// isFinal reports whether the answer means that the lease need not be released again.
func isFinal(err error) bool {
	_, gone := errors.AsType[*engine.NotHeldError](err)
	return err == nil || gone || errors.Is(err, ErrDenied)
}

// confirmed ends a release, and queues the one that follows.
func (q *releaseQueue) confirmed(u *queuedRelease, err error) {
	if u.confirm != nil {
		u.confirm(err) // first: what follows may report this outcome
	}
	if next := u.then; next != nil {
		budget, now := next.until-next.from, q.c.keep.Mono()
		next.from, next.until = now, now+budget
		q.add(next)
	}
	q.done(u)
}

func (q *releaseQueue) done(u *queuedRelease) {
	if !u.closing {
		q.c.gate.Leave()
	}
}

// report reports the failure of a release, and of those that follow it.
func (u *queuedRelease) report(err error) {
	for ; u != nil; u = u.then {
		if u.confirm != nil {
			u.confirm(err)
		}
	}
}

// ofLease returns the first of a release and those that follow it that has a token, or itself.
func (u *queuedRelease) ofLease() *queuedRelease {
	for l := u; l != nil; l = l.then {
		if l.release.Token != 0 {
			return l
		}
	}
	return u
}

// fail leaves a release, and those that follow, to the TTL.
func (q *releaseQueue) fail(u *queuedRelease, err error) {
	u.report(err)
	defer q.done(u) // of the first
	if u.closing {
		return
	}
	u = u.ofLease() // a withdrawal may come before it
	q.noteUnreleased(u, err)
	if q.c.logLimit.admits(&q.c.logLimit.unconfirmed) {
		q.c.log.Warn("holdfast: a release was not confirmed; the lease or wait ends by its TTL",
			"resource", u.release.Resource.Name, "token", u.release.Token, "err", err)
	}
	for _, hook := range q.c.hooks.cleanupFailed {
		hook.CleanupFailed(CleanupFailedEvent{Resource: u.release.Resource.Name, Token: u.release.Token, Err: err})
	}
}

// noteUnreleased notes that the store has not confirmed the release of a lease, if the client is being closed.
func (q *releaseQueue) noteUnreleased(u *queuedRelease, err error) {
	if u.release.Token == 0 || u.over > 0 && u.over <= q.c.keep.Mono() {
		return // of an attempt that has no lease, or of a lease that has ended
	}
	if !errors.Is(err, ErrUnavailable) {
		err = errNotConfirmed
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.hurried {
		q.unreleased.all++
		q.unreleased.add(u.release.Resource.Name, err)
	}
}

// unreleasedError returns the error of Close for the leases that were being released when it began.
func (q *releaseQueue) unreleasedError() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	e := q.unreleased
	return e.orNil()
}

// len returns the number of releases that no worker has taken.
func (q *releaseQueue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.first) + len(q.again)
}

// hurry makes all first tries due, since the client closes.
func (q *releaseQueue) hurry() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.hurried = true
	q.start()
}

// stop fails the remaining releases. The tasks of the client have ended.
func (q *releaseQueue) stop() {
	q.mu.Lock()
	left := append(q.first, q.again...)
	q.first, q.again = nil, nil
	if q.timer != nil {
		q.timer.Stop()
	}
	q.mu.Unlock()
	for _, u := range left {
		defer q.fail(u, context.Cause(q.c.tasks)) // each, although a logger may panic
	}
}

// releaseHeap is ordered by when a release is due.
type releaseHeap []*queuedRelease

func (h releaseHeap) Len() int           { return len(h) }
func (h releaseHeap) Less(i, j int) bool { return h[i].from < h[j].from }
func (h releaseHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *releaseHeap) Push(x any)        { *h = append(*h, x.(*queuedRelease)) }
func (h *releaseHeap) Pop() any {
	old := *h
	u := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return u
}

// batchReleases is how many releases are in one call of an engine.BatchReleaser.
const batchReleases = 512

// atOnce returns how many releases are in one call.
func (c *Client) atOnce() int {
	if _, ok := c.engine.(engine.BatchReleaser); ok {
		return batchReleases
	}
	return 1
}

// releaseBatch makes releases in one call, if the engine is an engine.BatchReleaser.
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
