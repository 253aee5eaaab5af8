package cas_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// far is a store with a clock at the end of a slow way, of one process. Only what passes it has
// been read by that process.
type far struct {
	*castest.Timed
	there, back time.Duration
}

func (f *far) Read(ctx context.Context, reads []cas.Read) ([]cas.Doc, error) {
	<-time.After(f.there)
	docs, err := f.Timed.Read(ctx, reads)
	<-time.After(f.back)
	return docs, err
}

func (f *far) Swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	<-time.After(f.there)
	outs, err := f.Timed.Swap(ctx, changes)
	<-time.After(f.back)
	return outs, err
}

func (f *far) Now(ctx context.Context) (time.Time, error) {
	<-time.After(f.there)
	at, err := f.Timed.Now(ctx)
	<-time.After(f.back)
	return at, err
}

func timed() *castest.Timed {
	return &castest.Timed{Memory: castest.NewMemory(), Clock: func() time.Time { return time.Now().Add(-time.Hour) }}
}

// However slow the way to the store is, a lease does not end there before its TTL has passed since
// the request was sent: not after a grant, and not after a renewal.
func TestTTLCountsFromTheRequest(t *testing.T) {
	for _, way := range [][2]time.Duration{{0, 0}, {400 * time.Millisecond, 0}, {0, 400 * time.Millisecond}, {200 * time.Millisecond, 200 * time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			const ttl = 2 * time.Second
			s := timed()
			holder := cas.New(&far{Timed: s, there: way[0], back: way[1]}, 0)
			r := request("a.1", ttl, false)
			held := func(since time.Time, what string) {
				t.Helper()
				time.Sleep(time.Until(since.Add(ttl - time.Millisecond)))
				if a := newcomer(t, s, request("b.1", ttl, false)); a.Status != engine.Busy {
					t.Errorf("%v there, %v back: just before the TTL is over since the %s was sent: %v", way[0], way[1], what, a.Status)
				}
			}
			sent := time.Now()
			a, err := holder.Acquire(t.Context(), r)
			if err != nil || a.Status != engine.Granted {
				t.Fatal(a.Status, err)
			}
			held(sent.Add(a.TTL-ttl), "request") // as far as the answer promises
			time.Sleep(ttl)
			if a, err = holder.Acquire(t.Context(), request("c.1", ttl, false)); err != nil || a.Status != engine.Granted {
				t.Fatal(a.Status, err)
			}
			time.Sleep(ttl / 4)
			sent = time.Now()
			errs := holder.Renew(t.Context(), []engine.Renewal{{Resource: r.Resource, Held: engine.Held{ID: "c.1", Token: a.Token}, TTL: ttl}})
			if errs[0] != nil {
				t.Fatal(errs[0])
			}
			held(sent, "renewal")
		})
	}
}

// A grant may be computed long before the store makes it. What is left of it counts for the
// waiter from its latest poll, which may have come in between.
func TestPushedGrantCountsFromThePoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := timed()
		slow := &far{Timed: s}
		holder, waiter := cas.New(slow, 0), cas.New(s, 0)
		a, b := request("a.1", 30*time.Second, false), request("b.1", 30*time.Second, true)
		wakes := make(chan engine.Wakeup, 1)
		l, err := waiter.Listen(t.Context(), "p", "b", func(w engine.Wakeup) { wakes <- w })
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		held, err := holder.Acquire(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := waiter.Acquire(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		// The holder has the latest document and time, so its release is one swap, made at once.
		if errs := holder.Renew(t.Context(), []engine.Renewal{{Resource: a.Resource, Held: engine.Held{ID: a.ID, Token: held.Token}, TTL: 30 * time.Second}}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		slow.there = time.Second
		go func() {
			_ = holder.Release(t.Context(), engine.Release{Resource: a.Resource, Held: engine.Held{ID: a.ID, Token: held.Token}})
		}()
		time.Sleep(900 * time.Millisecond)
		polled := time.Now()
		if a, err := waiter.Acquire(t.Context(), b); err != nil || a.Status != engine.Queued {
			t.Fatal(a.Status, err)
		}
		w := <-wakes
		if w.Kind != engine.WakeGrant {
			t.Fatalf("got %+v, want a grant", w)
		}
		time.Sleep(time.Until(polled.Add(w.TTL - time.Millisecond)))
		if a := newcomer(t, s, request("c.1", time.Second, false)); a.Status != engine.Busy || a.Holder.ID != b.ID {
			t.Errorf("%v after the poll, for which the grant was said to last %v, the answer to another is %v", time.Since(polled), w.TTL, a.Status)
		}
	})
}

// A client that is alive, but has abandoned one of its waiters without being able to say so, takes
// it out when it polls for another.
func TestAbandonedWaiterIsTakenOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := timed()
		holder, client := cas.New(s, 0), cas.New(s, 0)
		newcomer(t, s, request("a.1", time.Hour, false))
		other := request("b.2", time.Hour, true)
		other.Resource.Name = "other"
		newcomer(t, s, engine.Request{Resource: other.Resource, ID: "a.2", Client: &engine.Client{ID: "a"}, Kind: engine.KindMutex, Capacity: 1, Weight: 1, TTL: time.Hour})
		if a, err := client.Acquire(t.Context(), request("b.1", time.Hour, true)); err != nil || a.Status != engine.Queued {
			t.Fatal(a.Status, err)
		}
		waiters := func() int {
			snap, err := holder.Snapshot(t.Context(), engine.Resource{Prefix: "p", Name: "n"})
			if err != nil {
				t.Fatal(err)
			}
			return len(snap.Waiters)
		}
		for range 3 { // b.1 has stopped to poll, b.2 has not
			if a, err := client.Acquire(t.Context(), other); err != nil || a.Status != engine.Queued {
				t.Fatal(a.Status, err)
			}
			time.Sleep(time.Second)
		}
		if n := waiters(); n != 1 {
			t.Fatalf("%d waiters before its time is over, want 1", n)
		}
		for range 3 {
			if _, err := client.Acquire(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if n := waiters(); n != 0 {
			t.Errorf("%d waiters, want none: its client has stopped to poll for it", n)
		}
	})
}

// A waiter that was granted since its latest poll holds a lease, which its client may use: it is
// not taken out although it has not polled for long.
func TestAbandonedWaiterThatWasGranted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := timed()
		holder, client := cas.New(s, 0), cas.New(s, 0)
		a := request("a.1", time.Hour, false)
		held, err := holder.Acquire(t.Context(), a)
		if err != nil {
			t.Fatal(err)
		}
		other := request("b.2", time.Hour, true)
		other.Resource.Name = "other"
		newcomer(t, s, engine.Request{Resource: other.Resource, ID: "a.2", Client: &engine.Client{ID: "a"}, Kind: engine.KindMutex, Capacity: 1, Weight: 1, TTL: time.Hour})
		if a, err := client.Acquire(t.Context(), request("b.1", time.Hour, true)); err != nil || a.Status != engine.Queued {
			t.Fatal(a.Status, err)
		}
		time.Sleep(2500 * time.Millisecond)
		if err := holder.Release(t.Context(), engine.Release{Resource: a.Resource, Held: engine.Held{ID: a.ID, Token: held.Token}}); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := client.Acquire(t.Context(), other); err != nil {
				t.Fatal(err)
			}
			time.Sleep(900 * time.Millisecond)
		}
		snap, err := holder.Snapshot(t.Context(), a.Resource)
		if err != nil || len(snap.Holders) != 1 || snap.Holders[0].ID != "b.1" {
			t.Errorf("the holders are %+v, %v", snap.Holders, err)
		}
	})
}

// If the store's clock turns out to be ahead of what was computed with, since one of the clocks was
// set or this machine was suspended, a renewal is made again for the time that is.
func TestRenewalOfAMachineThatWasSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 5 * time.Second
		var ahead time.Duration // the store's clock has gone on while this one stood
		s := &castest.Timed{Memory: castest.NewMemory(), Clock: func() time.Time { return time.Now().Add(ahead) }}
		e := cas.New(s, 0)
		r := request("a.1", ttl, false)
		a, err := e.Acquire(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		ahead = 3 * time.Second
		sent := time.Now()
		if errs := e.Renew(t.Context(), []engine.Renewal{{Resource: r.Resource, Held: engine.Held{ID: r.ID, Token: a.Token}, TTL: ttl}}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		time.Sleep(time.Until(sent.Add(ttl - time.Millisecond)))
		if a := newcomer(t, s, request("b.1", ttl, false)); a.Status != engine.Busy {
			t.Errorf("%v after the renewal with a TTL of %v: %v", time.Since(sent), ttl, a.Status)
		}
	})
}

// A store that refuses changes for now is tried again; when the caller's time is over, the error
// names why.
func TestErrorNamesTheStoresTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := castest.NewMemory()
		why := errors.New("the server is read-only")
		e := cas.New(&hooked{DocumentStore: m, swap: func(context.Context, []cas.Change) ([]cas.Outcome, error) { return nil, why }}, 0)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := e.Acquire(ctx, request("a.1", time.Minute, false))
		if !errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, why) {
			t.Errorf("got error %v, want it to name %v", err, why)
		}
		time.Sleep(10 * time.Second) // the operation ends
	})
}
