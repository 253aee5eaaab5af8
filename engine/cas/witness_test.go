package cas_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
	"github.com/holdfast-go/holdfast/engine/enginetest"
)

func newWitnessing() castest.Witnessing {
	return castest.Witnessing{Memory: castest.NewMemory(), Clock: time.Now}
}

func TestWitnessingStore(t *testing.T) {
	castest.Run(t, func(testing.TB) cas.DocumentStore { return newWitnessing() })
}

func TestConformanceWithWitnesses(t *testing.T) {
	shared := cas.New(newWitnessing(), 0)
	enginetest.Run(t, func(testing.TB) engine.Engine { return shared })
}

// counted is a store that counts the witnesses that were made. They last for at most longest, and fail to be made with an error.
type counted struct {
	castest.Witnessing
	mu      sync.Mutex
	made    int
	longest time.Duration
	fails   error
}

func newCounted() *counted { return &counted{Witnessing: newWitnessing(), longest: time.Hour} }

func (c *counted) Witness(ctx context.Context, prefix string, d time.Duration) (string, time.Duration, error) {
	if c.fails != nil {
		return "", 0, c.fails
	}
	c.made++
	return c.Witnessing.Witness(ctx, prefix, min(d, c.longest))
}

// tries makes requests of processes that live for one try, one each interval, until one is granted, and returns
// after how long.
func tries(t *testing.T, s cas.DocumentStore, r engine.Request, every, most time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	for i := 0; time.Since(began) <= most; i++ {
		r.ID = fmt.Sprintf("%s-%d.1", r.Reason, i)
		if a := newcomer(t, s, r); a.Status == engine.Granted {
			return time.Since(began)
		}
		<-time.After(every)
	}
	t.Fatalf("no try was granted within %v", most)
	return 0
}

// Processes that live for one TryLock find that a holder is dead, after its TTL and soon after that, for one
// witness.
func TestTriesFindADeadHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		s := newCounted()
		newcomer(t, s, request("dead.1", ttl, false))
		if took := tries(t, s, request("", ttl, false), time.Second, time.Hour); took < ttl || took > ttl+time.Second {
			t.Errorf("found %v after the first try, want the TTL of %v and at most a try more", took, ttl)
		}
		if s.made != 1 {
			t.Errorf("%d witnesses, want 1", s.made)
		}
	})
}

// A witness that lasts shorter than the TTL is followed by another one, and together they prove what they lasted.
func TestTriesFindADeadHolderByShortWitnesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		s := newCounted()
		s.longest = 3 * time.Second
		newcomer(t, s, request("dead.1", ttl, false))
		if took := tries(t, s, request("", ttl, false), 100*time.Millisecond, time.Hour); took < ttl || took > ttl+time.Second {
			t.Errorf("found %v after the first try, with a TTL of %v", took, ttl)
		}
		if s.made != 4 {
			t.Errorf("%d witnesses of 3 s, want 4", s.made)
		}
	})
}

// Nobody passes over a holder that renews in time, however late within its TTL, and each of its stamps costs one
// witness at most.
func TestTriesPassOverNoHolder(t *testing.T) {
	for _, interval := range []time.Duration{time.Second / 3, time.Second - time.Millisecond} {
		for _, longest := range []time.Duration{time.Hour, 300 * time.Millisecond} {
			synctest.Test(t, func(t *testing.T) {
				const ttl = time.Second
				s := newCounted()
				s.longest = longest
				holder, r := cas.New(s, 0), request("holder.1", ttl, false)
				held := acquire(t, holder, r, engine.Granted)
				for range 50 {
					for renewal := time.Now(); time.Since(renewal) < interval-5*time.Millisecond; time.Sleep(7 * time.Millisecond) {
						if a := newcomer(t, s, request("try.1", ttl, false)); a.Status != engine.Busy {
							t.Fatalf("%v, %v after a renewal", a.Status, time.Since(renewal))
						}
					}
					if err := renew(t, holder, r, held.Token); err != nil {
						t.Fatal(err)
					}
				}
				if most := 50 * int(1+ttl/min(longest, ttl)); s.made > most || s.made < 50 {
					t.Errorf("%d witnesses for 50 renewals, want at most %d", s.made, most)
				}
			})
		}
	}
}

// A witness that has vanished proves nothing of a stamp beside which it was not noted.
func TestWitnessWithoutItsNote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		s := newCounted()
		holder, r := cas.New(s, 0), request("holder.1", ttl, false)
		held := acquire(t, holder, r, engine.Granted)
		lost := errors.New("the change is lost")
		swaps := 0
		link := &hookedWitnesses{counted: s, swap: func(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
			if swaps++; swaps > 1 { // the first finds the holder
				return nil, lost
			}
			return s.Swap(ctx, changes)
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if a, err := cas.New(link, 0).Acquire(ctx, request("a.1", ttl, false)); err != nil || a.Status != engine.Busy {
			t.Fatal(a.Status, err)
		}
		if s.made != 1 {
			t.Fatalf("%d witnesses, want 1", s.made)
		}
		for range 3 { // the holder renews each 9 s of 10; a witness of each stamp is noted when it is about to be replaced
			time.Sleep(9 * time.Second)
			acquire(t, cas.New(s, 0), request("b.1", ttl, false), engine.Busy)
			if err := renew(t, holder, r, held.Token); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second) // the link's writer ends
	})
}

type hookedWitnesses struct {
	*counted
	swap func(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error)
}

func (h *hookedWitnesses) Swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	return h.swap(ctx, changes)
}

// A try as another kind is refused for another reason than that the resource is busy, and finds a dead holder too.
func TestTriesOfAnotherKindFindADeadHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		s := newCounted()
		newcomer(t, s, request("dead.1", ttl, false))
		r, began := request("", ttl, false), time.Now()
		r.Kind, r.Capacity = engine.KindSemaphore, 2
		for i := 0; ; i++ {
			r.ID = fmt.Sprintf("try%d.1", i)
			a, err := cas.New(s, 0).Acquire(t.Context(), r)
			if err == nil && a.Status == engine.Granted {
				break
			}
			if !errors.Is(err, engine.ErrMismatch) || time.Since(began) > time.Hour {
				t.Fatalf("after %v: %v, %v", time.Since(began), a.Status, err)
			}
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took < ttl || took > ttl+time.Second {
			t.Errorf("granted after %v, with a TTL of %v", took, ttl)
		}
	})
}

// An observer that looks once sees that a lease is over if its witness has vanished.
func TestSnapshotBelievesAWitness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		s, r := newCounted(), request("dead.1", ttl, false)
		newcomer(t, s, r)
		newcomer(t, s, request("try.1", ttl, false))
		for _, want := range []int{1, 0} {
			time.Sleep(ttl - time.Millisecond)
			snap, err := cas.New(s, 0).Snapshot(t.Context(), r.Resource)
			if err != nil || len(snap.Holders) != want {
				t.Errorf("%d holders, %v, want %d", len(snap.Holders), err, want)
			}
		}
	})
}

// A semaphore has holders of different TTLs, of which some are renewed and others are dead. The tries find each of
// the dead.
func TestTriesFindTheDeadAmongTheLiving(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted()
		of := func(id string, ttl time.Duration) engine.Request {
			r := request(id, ttl, false)
			r.Kind, r.Capacity = engine.KindSemaphore, 4
			return r
		}
		living, began := cas.New(s, 0), time.Now()
		long, short := of("living.1", 30*time.Second), of("living.2", 2*time.Second)
		first, second := acquire(t, living, long, engine.Granted), acquire(t, living, short, engine.Granted)
		newcomer(t, s, of("dead.1", 30*time.Second))
		newcomer(t, s, of("gone.1", 5*time.Second))
		granted := map[time.Duration]bool{}
		for i := 0; len(granted) < 2; i++ {
			if a := newcomer(t, s, of(fmt.Sprintf("try%d.1", i), time.Hour)); a.Status == engine.Granted {
				granted[time.Since(began).Truncate(time.Second)] = true
			}
			if time.Sleep(500 * time.Millisecond); time.Since(began) > time.Hour {
				t.Fatalf("the dead were found after %v", granted)
			}
			if err := renew(t, living, short, second.Token); err != nil {
				t.Fatal(err)
			}
			if i%40 == 0 {
				if err := renew(t, living, long, first.Token); err != nil {
					t.Fatal(err)
				}
			}
		}
		for after := range granted {
			if after > 40*time.Second || after < 5*time.Second {
				t.Errorf("one of the dead was found after %v", after)
			}
		}
	})
}

// Processes that wait for less than the TTL, with long pauses between them, find a dead holder as well.
func TestBriefWaitersLeaveAWitness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Minute
		s := newCounted()
		newcomer(t, s, request("dead.1", ttl, false))
		began := time.Now()
		for i := range 100 {
			e, r := cas.New(s, 0), request(fmt.Sprintf("w%d.1", i), ttl, true)
			for range 3 {
				a, err := e.Acquire(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				if a.Status == engine.Granted {
					if took := time.Since(began); took < ttl || took > ttl+2*time.Minute || s.made != 1 {
						t.Errorf("granted after %v with a TTL of %v, by %d witnesses", took, ttl, s.made)
					}
					return
				}
				time.Sleep(time.Second)
			}
			release(t, e, r, 0)
			time.Sleep(time.Minute)
		}
		t.Errorf("nobody was granted the lease within %v", time.Since(began))
	})
}

// A process that has known a resource for longer than its TTL makes no witnesses: it sees by itself.
func TestLongLivedProcessMakesNoWitnesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 3 * time.Second
		s := newCounted()
		holder, other, r := cas.New(s, 0), cas.New(s, 0), request("holder.1", ttl, false)
		held := acquire(t, holder, r, engine.Granted)
		for range 100 {
			acquire(t, other, request("other.1", ttl, false), engine.Busy)
			time.Sleep(time.Second)
			if err := renew(t, holder, r, held.Token); err != nil {
				t.Fatal(err)
			}
		}
		if s.made > 4 {
			t.Errorf("%d witnesses in 100 s, want at most one for each stamp of the first 3 s", s.made)
		}
	})
}

// Many tries of a process at once make few witnesses.
func TestManyTriesMakeFewWitnesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted()
		newcomer(t, s, request("dead.1", time.Hour, false))
		e := cas.New(slow{s}, 0)
		var all sync.WaitGroup
		for i := range 500 {
			all.Go(func() { acquire(t, e, request(fmt.Sprint("a.", i), time.Hour, false), engine.Busy) })
		}
		all.Wait()
		if s.made == 0 || s.made > 8 {
			t.Errorf("%d witnesses of 500 tries, want 8 at most", s.made)
		}
	})
}

// slow is a store that takes its time for a witness.
type slow struct{ *counted }

func (s slow) Witness(ctx context.Context, prefix string, d time.Duration) (string, time.Duration, error) {
	<-time.After(100 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counted.Witness(ctx, prefix, d)
}

// A store that makes no witness, or does not respond, does not change the answer to a TryLock.
func TestWitnessFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newCounted()
		newcomer(t, s, request("dead.1", time.Hour, false))
		s.fails = errors.New("none today")
		acquire(t, cas.New(s, 0), request("a.1", time.Hour, false), engine.Busy)
		hangs := &hookedWitnesses{counted: s}
		hangs.swap = s.Swap
		began := time.Now()
		acquire(t, cas.New(hanging{hangs}, 0), request("a.2", time.Hour, false), engine.Busy)
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("answered after %v", took)
		}
	})
}

type hanging struct{ *hookedWitnesses }

func (hanging) Witness(ctx context.Context, _ string, _ time.Duration) (string, time.Duration, error) {
	<-ctx.Done()
	return "", 0, ctx.Err()
}

// A store to which documents were copied with their notes has none of the witnesses. Those who try there make others, and
// find the dead holder as in any store.
func TestTriesFindADeadHolderInACopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		from, r := newCounted(), request("dead.1", ttl, false)
		newcomer(t, from, r)
		newcomer(t, from, request("try.1", ttl, false))
		to := newCounted()
		copyDocuments(t, from, to)
		time.Sleep(time.Hour)
		if took := tries(t, to, request("", ttl, false), time.Second, time.Hour); took < ttl || took > ttl+time.Second {
			t.Errorf("found %v after the first try, want the TTL of %v and at most a try more", took, ttl)
		}
		if to.made != 1 {
			t.Errorf("%d witnesses, want 1", to.made)
		}
	})
}

// copyDocuments copies the resources of a store below the prefix of request.
func copyDocuments(t *testing.T, from, to cas.DocumentStore) {
	t.Helper()
	for key, err := range from.Keys(t.Context(), cas.Resources, request("", 0, false).Resource.Prefix) {
		if err != nil {
			t.Fatal(err)
		}
		docs, err := from.Read(t.Context(), []cas.Read{{Key: key}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := to.Swap(t.Context(), []cas.Change{{Key: key, Value: docs[0].Value, Keep: 24 * time.Hour}}); err != nil {
			t.Fatal(err)
		}
	}
}

// Processes that live for long and try seldom find a dead holder as those do that live for one try: the first of them that
// tries leaves a witness, and the TTL later any other one is granted the lease.
func TestSeldomTriesFindADeadHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		s, r := newCounted(), request("holder.1", ttl, false)
		holder, fleet := cas.New(s, 0), []*cas.Engine{cas.New(s, 0), cas.New(s, 0)}
		for i := range 6 { // each has known the resource for hours
			time.Sleep(time.Hour)
			held := acquire(t, holder, r, engine.Granted)
			acquire(t, fleet[i%2], request("try.1", ttl, false), engine.Busy)
			release(t, holder, r, held.Token)
			r.ID = fmt.Sprintf("holder.%d", i+2)
		}
		acquire(t, holder, r, engine.Granted) // and dies
		time.Sleep(time.Minute)
		acquire(t, fleet[0], request("try.2", ttl, false), engine.Busy)
		time.Sleep(ttl)
		acquire(t, fleet[1], request("try.3", ttl, false), engine.Granted)
	})
}
