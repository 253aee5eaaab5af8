package web

import (
	"context"
	"sync"
	"time"
)

// latest is the latest result of reading something from the store, shared by all
// requests. The first request after a reading is due makes it, and the others wait
// for that one. So nothing is read without a request.
type latest[T any] struct {
	// read must end by itself: a request that leaves does not end the reading that it makes.
	read func(context.Context) (T, error)
	// every is the least time from one reading to the next. A reading that takes
	// long makes it longer, so that reading takes at most a fifth of the time.
	every time.Duration

	mu      sync.Mutex
	reading chan struct{} // closed when the reading under way has ended; nil: there is none
	last    result[T]
}

// share is how many times its own duration a reading is apart from the next.
const share = 4

// result is what the readings up to now have found.
type result[T any] struct {
	value  T
	ok     bool          // value is that of a reading that succeeded
	at     time.Time     // when that reading ended
	took   time.Duration // by that reading
	err    error         // of the latest reading; nil: it succeeded
	failed time.Time     // when the first of the failed readings since then ended
	due    time.Time     // of the next reading
	number uint64        // of readings, failed ones included
}

// get returns the latest result, from a new reading if that is due. An error of
// the store is part of the result; get fails only if ctx ends.
func (l *latest[T]) get(ctx context.Context) (result[T], error) {
	for {
		l.mu.Lock()
		if now := time.Now(); l.last.number > 0 && now.Before(l.last.due) {
			defer l.mu.Unlock()
			return l.last, nil
		}
		other := l.reading
		if other == nil {
			own := make(chan struct{})
			l.reading = own
			l.mu.Unlock()
			return l.renew(ctx, own)
		}
		l.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return result[T]{}, ctx.Err()
		}
	}
}

// glance returns the latest result, and waits for a reading only so long. A reading that is due
// begins, and ends by itself: a later call returns what it finds.
func (l *latest[T]) glance(ctx context.Context, timeout time.Duration) result[T] {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last.number > 0 && time.Now().Before(l.last.due) {
		return l.last
	}
	if l.reading == nil {
		l.reading = make(chan struct{})
		go l.renew(context.WithoutCancel(ctx), l.reading)
	}
	reading := l.reading
	l.mu.Unlock()
	select {
	case <-reading:
	case <-ctx.Done():
	}
	l.mu.Lock()
	return l.last
}

// renew reads. The result counts even if ctx ends meanwhile, since others wait for it: if each
// reader that left threw it away, a slow store would be read all the time and never shown.
func (l *latest[T]) renew(ctx context.Context, own chan struct{}) (result[T], error) {
	defer func() { // also if read panics
		l.mu.Lock()
		defer l.mu.Unlock()
		l.reading = nil
		close(own)
	}()
	began := time.Now()
	value, err := l.read(context.WithoutCancel(ctx))
	now := time.Now()
	took := now.Sub(began)
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.last
	r.number++
	r.err, r.due = err, now.Add(max(l.every, share*took))
	switch {
	case err == nil:
		r.value, r.ok, r.at, r.took, r.failed = value, true, now, took, time.Time{}
	case r.failed.IsZero():
		r.failed = now
	}
	return *r, ctx.Err()
}
