package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Faults shows what package faulttest shows on a Redis, as far as it needs no server of its own.
func Faults(t *testing.T, store func(testing.TB) *Store) {
	for name, f := range map[string]func(*testing.T, *Store){
		"DeadWaitersAtTheFront": deadWaitersAtTheFront, "LiveWaiterKeepsItsPlace": liveWaiterKeepsItsPlace,
		"StaleHolderKeepsItsToken": staleHolderKeepsItsToken, "BreakNotifiesTheHolder": breakNotifiesTheHolder,
		"CloseWithWaiters": closeWithWaiters, "IdentityIsComparedWhole": identityIsComparedWhole, "OneNameAsTwoKinds": oneNameAsTwoKinds,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, store(t))
		})
	}
}

// waiting waits until so many wait.
func waiting(t testing.TB, c *holdfast.Client, name string, n int) {
	t.Helper()
	redistest.Await(t, limit, "waiters", func() bool {
		s, err := c.Snapshot(t.Context(), name)
		return err == nil && len(s.Waiters) == n
	})
}

// release releases a lease that is held.
func release(t testing.TB, lease *holdfast.Lease) {
	t.Helper()
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
}

// deadWaitersAtTheFront: waiters that died cost those behind them one claim window, and not one each.
func deadWaitersAtTheFront(t *testing.T, s *Store) {
	const dead, window = 4, 3 * time.Second
	stalls := redistest.WatchStalls(t)
	holder, next := s.Client(t), s.Client(t)
	lease := lock(t, holder, Name)
	var workers []*Worker
	for n := range dead {
		workers = append(workers, s.Start(t, Hold))
		waiting(t, holder, Name, n+1)
	}
	got := lockLater(t, next, Name)
	waiting(t, holder, Name, dead+1)
	for _, w := range workers {
		w.Kill()
	}
	release(t, lease)
	released := time.Now()
	if after := <-got; after != nil {
		stalls.Within(t, released, 2*window, "to enter behind waiters that died")
		requireFree(t, next, after)
	}
}

// liveWaiterKeepsItsPlace: a waiter that polls is not taken for dead, however long it waits.
func liveWaiterKeepsItsPlace(t *testing.T, s *Store) {
	holder := s.Client(t)
	lease := lock(t, holder, Name)
	first := lockLater(t, s.Client(t), Name)
	waiting(t, holder, Name, 1)
	second := lockLater(t, s.Client(t), Name)
	waiting(t, holder, Name, 2)
	select {
	case <-first:
		redistest.Broken(t, "the first waiter was granted what is held")
	case <-second:
		redistest.Broken(t, "the second waiter was granted what is held")
	case <-time.After(4 * time.Second): // longer than a waiter lives without a poll
	}
	waiting(t, holder, Name, 2)
	release(t, lease)
	one := <-first
	if one == nil {
		return
	}
	release(t, one)
	if two := <-second; two != nil {
		if two.Token() <= one.Token() {
			redistest.Broken(t, "token %d after %d", two.Token(), one.Token())
		}
		requireFree(t, holder, two)
	}
}

// staleHolderKeepsItsToken: a lease that has ended reads its own token, and its release does not end that of the next holder.
func staleHolderKeepsItsToken(t *testing.T, s *Store) {
	old := lock(t, s.Client(t), Name, holdfast.WithTTL(TTL), holdfast.WithoutRenewal())
	token := old.Token()
	c := s.Client(t)
	next := lock(t, c, Name)
	if old.Token() != token || next.Token() <= token {
		redistest.Broken(t, "the stale holder reads token %d and had %d; the next one has %d", old.Token(), token, next.Token())
	}
	if err := old.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Release by the stale holder: %v", err)
	}
	if next.Err() != nil {
		redistest.Broken(t, "the release of a stale holder ended the next lease: %v", next.Err())
	}
	requireFree(t, c, next)
}

// breakNotifiesTheHolder: the holder of a lease that an operator breaks is notified before its next renewal, and the next one enters
// when it has released, or by force at once.
func breakNotifiesTheHolder(t *testing.T, s *Store) {
	const ttl = 45 * time.Second // it is renewed after 15 s
	for _, force := range []bool{false, true} {
		holder, other := s.Client(t), s.Client(t)
		lease := lock(t, holder, Name, holdfast.WithTTL(ttl))
		next := lockLater(t, other, Name)
		waiting(t, holder, Name, 1)
		elsewhere := lock(t, other, "elsewhere")
		there := lockLater(t, holder, "elsewhere") // so its client listens; without, it would begin a second after the grant
		waiting(t, other, "elsewhere", 1)
		release(t, elsewhere)
		if l := <-there; l != nil {
			release(t, l)
		}
		var opts []holdfast.BreakOption
		if force {
			opts = append(opts, holdfast.Force())
		}
		if err := other.Break(t.Context(), Name, lease.HolderID(), opts...); err != nil {
			t.Fatal(err)
		}
		select {
		case <-lease.Done():
		case <-time.After(ttl / 4):
			t.Errorf("force %t: the holder is not notified within %v", force, ttl/4)
		}
		if lost, ok := errors.AsType[*holdfast.LostError](lease.Err()); !ok || lost.Cause != holdfast.LostBroken {
			t.Errorf("force %t: the lease that was broken: %v", force, lease.Err())
		}
		if !force {
			if _, err := s.Client(t).Mutex(Name).TryLock(t.Context()); !errors.Is(err, holdfast.ErrNotAcquired) || len(next) > 0 {
				redistest.Broken(t, "another could enter before the holder of the broken lease has released it: %v, %d", err, len(next))
			}
		}
		if err := lease.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("force %t: Release: %v", force, err)
		}
		if l := <-next; l != nil {
			if l.Token() <= lease.Token() {
				redistest.Broken(t, "token %d after %d", l.Token(), lease.Token())
			}
			requireFree(t, other, l)
		}
	}
}

// closeWithWaiters: a client that closes has no holders and no waiters any more.
func closeWithWaiters(t *testing.T, s *Store) {
	c, other := s.Client(t), s.Client(t)
	lease, mine := lock(t, other, Name), lock(t, c, "mine")
	var waits []<-chan error
	for range 5 {
		for _, opts := range [][]holdfast.LockOption{nil, {holdfast.WithoutTenure()}} {
			ended := make(chan error, 1)
			go func() {
				_, err := c.Mutex(Name, opts...).Lock(t.Context())
				ended <- err
			}()
			waits = append(waits, ended)
		}
	}
	waiting(t, other, Name, 6) // the others wait in the process
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	for _, ended := range waits {
		if err := <-ended; !errors.Is(err, holdfast.ErrClosed) || !errors.Is(err, holdfast.ErrNotAcquired) {
			t.Errorf("a waiter of the client that has closed: %v", err)
		}
	}
	if !errors.Is(mine.Err(), holdfast.ErrReleased) {
		t.Errorf("a lease of the client that has closed: %v", mine.Err())
	}
	waiting(t, other, Name, 0)
	requireFree(t, other, lease)
	requireFree(t, other, lock(t, other, "mine"))
}

// identityIsComparedWhole: an operator breaks what has the whole holder ID.
func identityIsComparedWhole(t *testing.T, s *Store) {
	c := s.Client(t)
	lease := lock(t, c, Name)
	id := lease.HolderID()
	for _, other := range []string{id[:len(id)-1], id + "x", id + " ", strings.ToUpper(id), "*", "%", id[:1]} {
		if other == id {
			continue
		}
		if err := c.Break(t.Context(), Name, other); !errors.Is(err, holdfast.ErrNotHeld) {
			t.Errorf("Break of %q: %v", other, err)
		}
	}
	requireFree(t, c, lease)
}

// oneNameAsTwoKinds: a name that is used as one kind of lock is refused as another.
func oneNameAsTwoKinds(t *testing.T, s *Store) {
	c := s.Client(t)
	lease := lock(t, c, Name)
	for kind, acquire := range map[string]func(context.Context) (*holdfast.Lease, error){
		"semaphore": func(ctx context.Context) (*holdfast.Lease, error) {
			return s.Client(t).Semaphore(Name, 3).Acquire(ctx, 1)
		},
		"RWMutex": func(ctx context.Context) (*holdfast.Lease, error) { return s.Client(t).RWMutex(Name).RLock(ctx) },
	} {
		if _, err := acquire(t.Context()); !errors.Is(err, holdfast.ErrMismatch) {
			t.Errorf("a mutex as a %s: %v", kind, err)
		}
	}
	requireFree(t, c, lease)
}

// Hung stops a server: each call returns soon after its ctx ends, and by itself if that never does, the holder is told in
// time, and nothing is left when the server goes on.
func Hung(t *testing.T, s *Store, stop, resume func()) {
	stalls := redistest.WatchStalls(t)
	c := s.Client(t)
	requireFree(t, c, lock(t, c, "a"))
	held := lock(t, c, "held", holdfast.WithTTL(2*time.Second))
	stop()
	list := func(ctx context.Context) error {
		for _, err := range c.List(ctx, "*") {
			return err
		}
		return nil
	}
	endless, end := context.WithCancel(context.WithoutCancel(t.Context()))
	late := time.AfterFunc(20*time.Second, func() {
		t.Error("a List whose ctx never ends has no answer after 20 s")
		end()
	})
	if err := list(endless); !errors.Is(err, holdfast.ErrUnavailable) && endless.Err() == nil {
		t.Errorf("a List whose ctx never ends: %v", err)
	}
	late.Stop()
	end()
	for name, call := range map[string]func(context.Context) error{
		"Lock":     func(ctx context.Context) error { _, err := c.Mutex("a").Lock(ctx); return err },
		"TryLock":  func(ctx context.Context) error { _, err := c.Mutex("b").TryLock(ctx); return err },
		"Snapshot": func(ctx context.Context) error { _, err := c.Snapshot(ctx, "a"); return err },
		"Break":    func(ctx context.Context) error { return c.Break(ctx, "a", "x.y") },
		"List":     list,
	} {
		cause := errors.New("the caller has left")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 150*time.Millisecond, cause)
		began := time.Now()
		err := call(ctx)
		cancel()
		stalls.Within(t, began, 2*time.Second, name)
		if !errors.Is(err, holdfast.ErrUnavailable) && !errors.Is(err, cause) {
			t.Errorf("%s: %v", name, err)
		}
		if strings.HasSuffix(name, "Lock") && (!errors.Is(err, holdfast.ErrNotAcquired) || !errors.Is(err, cause)) {
			t.Errorf("%s: %v, want ErrNotAcquired and the cause of its ctx", name, err)
		}
	}
	<-held.Done()
	if lost, ok := errors.AsType[*holdfast.LostError](held.Err()); !ok || lost.Cause != holdfast.LostUnreachable {
		t.Errorf("the holder: %v", held.Err())
	}
	resume()
	for _, name := range []string{"a", "b", "held"} {
		requireFree(t, c, lock(t, c, name))
	}
}
