package storetest

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// limit is how long a test waits for what must happen.
const limit = time.Minute

// lock waits for a lease.
func lock(t testing.TB, c *holdfast.Client, name string, opts ...holdfast.LockOption) *holdfast.Lease {
	t.Helper()
	lease := <-lockLater(t, c, name, opts...)
	if lease == nil {
		t.FailNow()
	}
	return lease
}

// lockLater returns where a lease arrives, or nil after an error.
func lockLater(t testing.TB, c *holdfast.Client, name string, opts ...holdfast.LockOption) <-chan *holdfast.Lease {
	got := make(chan *holdfast.Lease, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		lease, err := c.Mutex(name, opts...).Lock(ctx)
		if err != nil {
			t.Errorf("Lock %q: %v", name, err)
		}
		got <- lease
	}()
	return got
}

// requireFree releases a lease and checks that nobody holds or waits any longer.
func requireFree(t testing.TB, c *holdfast.Client, lease *holdfast.Lease) {
	t.Helper()
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	redistest.Await(t, limit, "nobody holds or waits", func() bool {
		s, err := c.Snapshot(t.Context(), lease.Resource())
		return err == nil && len(s.Holders)+len(s.Waiters) == 0
	})
}

// Processes kills and stops processes, while the store works.
func Processes(t *testing.T, store func(testing.TB) *Store) {
	for name, f := range map[string]func(*testing.T, *Store){
		"HolderKilled": HolderKilled, "HolderStopped": holderStopped, "KilledInMidWrite": KilledInMidWrite,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, store(t))
		})
	}
}

// HolderKilled kills a holder: who waits gets the lease, and nothing of the dead one is left.
func HolderKilled(t *testing.T, s *Store) {
	w, token := s.StartHolder(t)
	c := s.Client(t)
	got := lockLater(t, c, Name, holdfast.WithTTL(TTL))
	select {
	case lease := <-got:
		if lease != nil {
			redistest.Broken(t, "token %d was granted while %d was held", lease.Token(), token)
		}
		return
	case <-time.After(TTL + TTL/2): // it is renewed meanwhile
	}
	w.Kill()
	lease := <-got
	if lease == nil {
		return
	}
	if lease.Token() <= token {
		redistest.Broken(t, "token %d after %d", lease.Token(), token)
	}
	requireFree(t, c, lease)
}

// holderStopped stops a holder for longer than its TTL: another one is granted the lease meanwhile.
func holderStopped(t *testing.T, s *Store) {
	w, token := s.StartHolder(t)
	w.Pause(t)
	c := s.Client(t)
	lease := lock(t, c, Name)
	RequireLost(t, w, token, lease)
	snapshot, err := c.Snapshot(t.Context(), Name)
	if err != nil || len(snapshot.Holders) != 1 || snapshot.Holders[0].Token != lease.Token() {
		t.Errorf("after the release of the former holder: %+v, %v; want the holder of %d", snapshot, err, lease.Token())
	}
	requireFree(t, c, lease)
}

// RequireLost checks that a paused worker, whose lease another one got meanwhile, finds that out with its
// first look when it is resumed, and stops it, which releases.
func RequireLost(t testing.TB, w *Worker, token uint64, next *holdfast.Lease) {
	t.Helper()
	if next.Token() <= token {
		redistest.Broken(t, "token %d after %d", next.Token(), token)
	}
	w.Resume()
	if says := w.Ask(t); !strings.HasPrefix(says, "lost: ") {
		redistest.Broken(t, "after the pause, and after token %d was granted, the former holder says %q", next.Token(), says)
	}
	w.Stop()
}

// KilledInMidWrite kills processes wherever they are: the others go on, and their tokens rise.
func KilledInMidWrite(t *testing.T, s *Store) {
	workers := make([]*Worker, 3)
	for i := range workers {
		workers[i] = s.Start(t, Turns)
	}
	for range redistest.Scale(8, 200) {
		s.AwaitTurns(t, len(s.Tokens(t))+rand.N(20))
		i := rand.N(len(workers))
		workers[i].Kill()
		workers[i] = s.Start(t, Turns)
	}
	for _, w := range workers {
		w.Stop()
	}
	s.RequireRising(t)
	c := s.Client(t)
	requireFree(t, c, lock(t, c, Name))
}
