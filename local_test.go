package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/random"
)

// without returns a client whose store is unavailable, with an open breaker.
func without(t *testing.T) *holdfast.Client {
	t.Helper()
	e := newFlaky()
	e.out(down)
	c := newClient(t, e)
	mustRelease(t, mustLock(t, c.Mutex("first", localOnly).Lock, context.Background()))
	return c
}

func TestLocalOnlyIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := without(t)
		m := c.Mutex("x", localOnly, holdfast.WithReason("to count"))
		l := mustLock(t, m.Lock, context.Background())
		wantFallback(t, l, holdfast.LocalOnly)
		_, err := m.TryLock(context.Background())
		if held, ok := errors.AsType[*holdfast.HeldError](err); !ok || held.HolderID != l.HolderID() || held.Reason != "to count" || held.PID == 0 {
			t.Errorf("TryLock: %v", err)
		}
		var waits []<-chan result
		for range 5 {
			waits = append(waits, lockSoon(context.Background(), m.Lock))
			synctest.Wait()
		}
		quits, cancel := context.WithCancel(context.Background())
		quit := lockSoon(quits, m.Lock)
		synctest.Wait()
		last := lockSoon(context.Background(), m.Lock)
		synctest.Wait()
		cancel()
		wantErr(t, (<-quit).err, holdfast.ErrNotAcquired, context.Canceled)
		for _, w := range append(waits, last) {
			synctest.Wait()
			wantWaiting(t, w, "entered beside the one before")
			mustRelease(t, l)
			r := wantGrant(t, w)
			l = r.lease
		}
		mustRelease(t, l)
		mustRelease(t, mustLock(t, m.Lock, context.Background()))
	})
}

// Other clients, and callers with another fallback, are not excluded.
func TestLocalOnlyIsPerClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, other := without(t), without(t)
		for _, m := range []*holdfast.Mutex{c.Mutex("x", localOnly), other.Mutex("x", localOnly), c.Mutex("x", failOpen), c.Mutex("y", localOnly)} {
			mustLock(t, m.Lock, context.Background())
		}
	})
}

func TestLocalOnlyReadersAndWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := without(t)
		rw := c.RWMutex("x", localOnly)
		ctx := context.Background()
		first, second := mustLock(t, rw.RLock, ctx), mustLock(t, rw.RLock, ctx)
		writer := lockSoon(ctx, rw.Lock)
		synctest.Wait()
		mustNotLock(t, rw.TryRLock, ctx, holdfast.ErrNotAcquired) // the writer is not passed
		reader := lockSoon(ctx, rw.RLock)
		synctest.Wait()
		mustRelease(t, first)
		wantErr(t, second.Demote(context.Background()), holdfast.ErrNotHeld)
		mustRelease(t, second)
		w := wantGrant(t, writer).lease
		synctest.Wait()
		wantWaiting(t, reader, "a reader beside the writer")
		if err := w.Demote(context.Background()); err != nil {
			t.Fatal(err)
		}
		mustRelease(t, wantGrant(t, reader).lease)
		if err := w.Demote(context.Background()); err != nil {
			t.Errorf("again: %v", err)
		}
		mustRelease(t, w)
		wantErr(t, w.Demote(context.Background()), holdfast.ErrNotHeld)
		mustLock(t, c.Mutex("x", localOnly).TryLock, ctx) // no use of another kind is left
		mustNotLock(t, rw.TryLock, context.Background(), holdfast.ErrMismatch)
	})
}

func TestLocalOnlySemaphore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := without(t).Semaphore("x", 5, localOnly)
		a := mustLock(t, units(s, 3), context.Background())
		_, err := s.TryAcquire(context.Background(), 3)
		wantErr(t, err, holdfast.ErrNotAcquired)
		b, err := s.TryAcquire(context.Background(), 2)
		if err != nil {
			t.Fatal(err)
		}
		mustRelease(t, a)
		mustRelease(t, b)
		all, err := s.TryAcquire(context.Background(), 5)
		if err != nil {
			t.Fatal(err)
		}
		mustRelease(t, all)
	})
}

// A lease that was granted without the store also excludes the callers of its client to whom the
// store grants after its return.
func TestLocalOnlyOverTheStoresReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFlaky()
		e.out(down)
		c := newClient(t, e)
		m := c.Mutex("x", localOnly)
		old := mustLock(t, m.Lock, context.Background())
		waits := lockSoon(context.Background(), m.Lock)
		synctest.Wait()
		e.out(nil)
		time.Sleep(2 * time.Second)
		next := lockSoon(context.Background(), m.Lock)
		time.Sleep(time.Minute)
		if len(look(t, e.Engine, "x").Holders) != 1 {
			t.Error("it does not hold in the store while it waits here")
		}
		mustNotLock(t, m.TryLock, context.Background(), holdfast.ErrNotAcquired)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		mustNotLock(t, m.Lock, ctx, holdfast.ErrNotAcquired, context.DeadlineExceeded)
		cancel()
		wantWaiting(t, waits, "entered beside the lease without the store")
		wantWaiting(t, next, "entered beside the lease without the store")
		mustRelease(t, old)
		for range 2 { // in any order: one waits in this process, the other holds in the store
			var r result
			select {
			case r = <-waits:
			case r = <-next:
			}
			if r.err != nil {
				t.Fatal(r.err)
			}
			wantFallback(t, r.lease, holdfast.FailClosed)
			mustRelease(t, r.lease)
		}
		wantEmpty(t, e, "x")
	})
}

// A lease of the store excludes the callers of its client that fall back, until its trust window
// ends.
func TestLocalOnlyBesideALeaseOfTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFlaky()
		c := newClient(t, e)
		m := c.Mutex("x", localOnly, holdfast.WithoutTenure())
		l := mustLock(t, m.Lock, context.Background())
		e.out(hang)
		next := lockSoon(context.Background(), m.Lock)
		time.Sleep(5 * time.Second)
		wantWaiting(t, next, "entered beside the holder")
		r := <-next
		wantLost(t, l.Err(), holdfast.LostUnreachable)
		wantFallback(t, r.lease, holdfast.LocalOnly)
		mustRelease(t, r.lease)
	})
}

// After Detach the local lock is free, as after a release.
func TestLocalOnlyDetached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFlaky()
		c := newClient(t, e)
		m := c.Mutex("x", localOnly)
		ticket, err := mustLock(t, m.Lock, context.Background()).Detach(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		l, err := c.Adopt(context.Background(), ticket)
		if err != nil {
			t.Fatal(err)
		}
		mustRelease(t, l)
		mustRelease(t, mustLock(t, m.Lock, context.Background()))
	})
}

// localStep is one line of a random program of one client.
type localStep struct {
	Do    string
	Write bool
	Wait  time.Duration
	Hold  time.Duration
	Sleep time.Duration
}

func drawLocal(t *random.T) localStep {
	millis := func(name string, most int) time.Duration {
		return time.Duration(random.IntRange(0, most).Draw(t, name)) * time.Millisecond
	}
	return localStep{
		Do:    random.SampledFrom([]string{"lock", "lock", "lock", "lock", "try", "down", "hang", "heal"}).Draw(t, "do"),
		Write: random.Bool().Draw(t, "write"),
		Wait:  millis("wait", 8000),
		Hold:  millis("hold", 5000),
		Sleep: random.SampledFrom([]time.Duration{0, time.Millisecond, 300 * time.Millisecond, 3 * time.Second}).Draw(t, "sleep"),
	}
}

// runLocal returns the violations: a writer never holds together with another, whether
// or not the store granted the leases, and in the end nothing is held.
func runLocal(program []localStep) []string {
	e := newFlaky()
	c, err := holdfast.New(e)
	if err != nil {
		return []string{err.Error()}
	}
	type holder struct {
		l     *holdfast.Lease
		write bool
	}
	var (
		mu      sync.Mutex
		holders []holder
		wrong   []string
		callers sync.WaitGroup
	)
	act := func(s localStep) {
		rw := c.RWMutex("x", localOnly, holdfast.WithTTL(2*time.Second))
		lock := map[string]func(context.Context) (*holdfast.Lease, error){
			"locktrue": rw.Lock, "lockfalse": rw.RLock, "trytrue": rw.TryLock, "tryfalse": rw.TryRLock,
		}[fmt.Sprint(s.Do, s.Write)]
		ctx, cancel := context.WithTimeout(context.Background(), s.Wait)
		defer cancel()
		l, err := lock(ctx)
		if err != nil {
			return
		}
		mu.Lock()
		for _, h := range holders {
			if (h.write || s.Write) && h.l.Err() == nil && l.Err() == nil {
				wrong = append(wrong, fmt.Sprintf("%v (write %v) beside %v (write %v)", l.Fallback(), s.Write, h.l.Fallback(), h.write))
			}
		}
		holders = append(holders, holder{l, s.Write})
		mu.Unlock()
		select {
		case <-time.After(s.Hold):
		case <-l.Done():
		}
		mu.Lock()
		holders = slices.DeleteFunc(holders, func(h holder) bool { return h.l == l })
		mu.Unlock()
		_ = l.Release(ctx)
	}
	for _, s := range program {
		synctest.Wait()
		switch s.Do {
		case "lock", "try":
			callers.Go(func() { act(s) })
		case "down":
			e.out(down)
		case "hang":
			e.out(hang)
		case "heal":
			e.out(nil)
		}
		time.Sleep(s.Sleep)
	}
	e.out(nil)
	callers.Wait()
	time.Sleep(30 * time.Second) // every clean-up is over
	l, err := c.RWMutex("x", localOnly, holdfast.WithTTL(2*time.Second)).TryLock(context.Background())
	if err != nil || l.Fallback() != holdfast.FailClosed {
		wrong = append(wrong, fmt.Sprintf("at the end: %v", err))
	}
	if err := c.Close(); err != nil {
		wrong = append(wrong, err.Error())
	}
	return wrong
}

func TestLocalOnlyUnderRandomPrograms(t *testing.T) {
	random.Check(t, 100, func(rt *random.T) {
		program := random.SliceOfN(random.Custom(drawLocal), 1, 40).Draw(rt, "program")
		var wrong []string
		synctest.Test(t, func(*testing.T) { wrong = runLocal(program) })
		if len(wrong) > 0 {
			rt.Fatalf("%q", wrong)
		}
	})
}
