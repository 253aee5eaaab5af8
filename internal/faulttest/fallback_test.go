package faulttest

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// outages are ways in which a Redis is away, and how it comes back.
func outages() map[string]struct{ begin, end func(*redistest.Server) } {
	return map[string]struct{ begin, end func(*redistest.Server) }{
		"killed": {(*redistest.Server).Kill, (*redistest.Server).Restart},
		"hung":   {(*redistest.Server).Pause, (*redistest.Server).Resume},
	}
}

// Without Redis each fallback does what it promises; only the first call waits for the
// timeout; and soon after Redis is back all is as before.
func TestFallbacks(t *testing.T) {
	for name, outage := range outages() {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			c := w.client()
			open := c.Mutex("open", holdfast.WithFallback(holdfast.FailOpen))
			local := c.Mutex("local", holdfast.WithFallback(holdfast.LocalOnly))
			w.release(w.lock(open.Lock))
			w.release(w.lock(local.Lock))
			outage.begin(w.redis)

			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			_, err := c.Mutex("closed").Lock(ctx)
			cancel()
			if err == nil {
				t.Fatal("FailClosed: locked without Redis")
			}
			start := time.Now()
			l := w.lock(open.Lock)
			if d := time.Since(start); d < holdfast.FallbackTimeout/2 {
				t.Errorf("it fell back after %v", d)
			}
			w.within(start, holdfast.FallbackTimeout+500*time.Millisecond, "to fall back")
			if l.Fallback() != holdfast.FailOpen || l.Token() != 0 || l.Err() != nil {
				t.Errorf("the lease: %v, token %d, %v", l.Fallback(), l.Token(), l.Err())
			}
			w.release(l)
			start = time.Now()
			for range 1000 {
				w.release(w.lock(open.Lock))
			}
			w.within(start, time.Second, "1000 more")

			l = w.lock(local.Lock)
			next := startLock(t.Context(), local.Lock)
			select {
			case <-next:
				t.Fatal("LocalOnly: entered beside the holder")
			case <-time.After(100 * time.Millisecond):
			}
			w.release(l)
			l = w.get(next).lease
			if l.Fallback() != holdfast.LocalOnly {
				t.Errorf("LocalOnly: %v", l.Fallback())
			}

			outage.end(w.redis)
			start = time.Now()
			w.eventually("locks are Redis's again", func() bool {
				l := w.lock(open.Lock)
				defer w.release(l)
				return l.Fallback() == holdfast.FailClosed && l.Token() > 0
			})
			w.within(start, 4*time.Second, "the way back to normal")
			next = startLock(t.Context(), local.Lock)
			w.eventually("the next one holds in Redis", func() bool {
				s, err := c.Snapshot(t.Context(), "local")
				return err == nil && len(s.Holders) == 1
			})
			select {
			case <-next:
				t.Fatal("LocalOnly: entered beside the holder from the time without Redis")
			case <-time.After(100 * time.Millisecond):
			}
			w.release(l)
			l = w.get(next).lease
			if l.Fallback() != holdfast.FailClosed {
				t.Errorf("LocalOnly, with Redis: %v", l.Fallback())
			}
			w.release(l)
		})
	}
}

// A waiter in the queue of Redis falls back when Redis goes away, and its place
// and whatever was under way are gone when Redis is back.
func TestWaiterFallsBack(t *testing.T) {
	for name, outage := range outages() {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t)
			holder := w.lock(w.client().Mutex("x", holdfast.WithTTL(time.Second)).Lock)
			c := w.client()
			got := startLock(t.Context(), c.Mutex("x", holdfast.WithFallback(holdfast.FailOpen)).Lock)
			w.waiting(c, "x", 1)
			outage.begin(w.redis)
			start := time.Now()
			r := w.granted(got)
			w.stalls.WithinAt(t, start, r.at, holdfast.FallbackTimeout+2*time.Second, "to fall back")
			if r.lease.Fallback() != holdfast.FailOpen {
				t.Errorf("fell back to %v", r.lease.Fallback())
			}
			w.release(r.lease)
			w.lost(holder)
			outage.end(w.redis)
		})
	}
}

// A Redis that is down for less than the timeout causes no fallback.
func TestShortOutageCausesNoFallback(t *testing.T) {
	w := newFixture(t)
	c := w.client()
	m := c.Mutex("x", holdfast.WithFallback(holdfast.LocalOnly))
	w.release(w.lock(m.Lock))
	w.redis.Pause()
	got := startLock(t.Context(), m.Lock)
	w.elapse(300 * time.Millisecond)
	w.redis.Resume()
	r := w.get(got)
	if r.err != nil || r.lease.Fallback() != holdfast.FailClosed {
		t.Fatal(r.lease, r.err)
	}
	w.release(r.lease)
}
