package cas_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// Processes that lock one resource again and again, each on a connection of its own to a store that needs
// some time for a commit, all have turns, none waits long to release, and many of them need few swaps: a release joins those that
// have proposed.
func TestCrowd(t *testing.T) {
	for _, rows := range []bool{false, true} {
		for _, n := range []int{2, 3, 8, 40} {
			t.Run(fmt.Sprintf("%d, locks of rows: %v", n, rows), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { crowd(t, n, rows) })
			})
		}
	}
}

func crowd(t *testing.T, n int, rows bool) {
	store := newCommitting(rows)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	turns := make([]int, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			c, err := holdfast.New(cas.New(store, 0))
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for {
				lease, err := c.Mutex("hot").Lock(ctx)
				if err != nil {
					return // the time is over
				}
				turns[i]++
				began := time.Now()
				if err := lease.Release(context.Background()); err != nil {
					t.Errorf("client %d: %v", i, err)
				}
				if took := time.Since(began); took > 500*time.Millisecond && ctx.Err() == nil {
					t.Errorf("client %d: a release took %v", i, took)
				}
			}
		})
	}
	all.Wait()
	travel(time.Second) // proposals that have arrived are still under way
	sum := 0
	for _, n := range turns {
		sum += n
	}
	swaps := store.swapped.Load() + store.failed.Load()
	t.Logf("%d turns, %d swaps of which %d failed, %d writes of other documents", sum, swaps, store.failed.Load(), store.others.Load())
	// Without proposals there are some 600 turns, and those of 40 take 5 swaps each. With them, each swap succeeds in most runs.
	if n >= 8 && (sum < 700 || swaps > 3*int64(sum)) {
		t.Errorf("%d turns took %d swaps, want 700 turns at least, of 3 swaps at most", sum, swaps)
	}
	if slices.Min(turns) == 0 {
		t.Errorf("a client had no turn: %v", turns)
	}
}

// Of two processes one of which is farther from the store, so that it is later in each race, both have turns all the time.
func TestFarRival(t *testing.T) {
	for _, rows := range []bool{false, true} {
		t.Run(fmt.Sprintf("locks of rows: %v", rows), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { farRival(t, rows) })
		})
	}
}

func farRival(t *testing.T, rows bool) {
	store := newCommitting(rows)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	var turns [2]int
	var longest [2]time.Duration
	var all sync.WaitGroup
	for i := range turns {
		all.Go(func() {
			c, err := holdfast.New(cas.New(&farther{store, time.Duration(i) * oneWay}, 0))
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			for ctx.Err() == nil {
				began := time.Now()
				if lease, err := c.Mutex("hot").Lock(ctx); err == nil {
					turns[i]++
					_ = lease.Release(context.Background())
				}
				longest[i] = max(longest[i], time.Since(began))
			}
		})
	}
	all.Wait()
	t.Logf("turns %v, longest waits %v, %d swaps failed", turns, longest, store.failed.Load())
	if 2*slices.Min(turns[:]) < slices.Max(turns[:]) {
		t.Errorf("turns: %v, one has more than twice as many as the other", turns)
	}
}

// farther is a store that is farther away.
type farther struct {
	*committing
	by time.Duration
}

func (s *farther) Read(ctx context.Context, reads []cas.Read) ([]cas.Doc, error) {
	travel(s.by)
	defer travel(s.by)
	return s.committing.Read(ctx, reads)
}

func (s *farther) Swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	travel(s.by)
	defer travel(s.by)
	return s.committing.Swap(ctx, changes)
}

// Processes that withdraw their waiters at the same time lose few races to each other.
func TestManyWithdraw(t *testing.T) {
	for _, rows := range []bool{false, true} {
		t.Run(fmt.Sprintf("locks of rows: %v", rows), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { withdrawMany(t, 100, rows) })
		})
	}
}

func withdrawMany(t *testing.T, n int, rows bool) {
	store := newCommitting(rows)
	h := request("holder.1", time.Minute, false)
	held := acquire(t, cas.New(store, 0), h, engine.Granted)
	engines := make([]*cas.Engine, n)
	for i := range engines {
		engines[i] = cas.New(store, 0)
		acquire(t, engines[i], request(fmt.Sprintf("w%d.1", i), time.Minute, true), engine.Queued)
	}
	before := store.failed.Load()
	var all sync.WaitGroup
	for i, e := range engines {
		all.Go(func() {
			r := engine.Release{Resource: h.Resource, Held: engine.Held{ID: fmt.Sprintf("w%d.1", i)}}
			if err := e.Release(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	release(t, cas.New(store, 0), h, held.Token)
	if failed := store.failed.Load() - before; failed > int64(12*n) {
		t.Errorf("%d swaps of %d waiters that left failed, want 12 each at most", failed, n)
	} else {
		t.Logf("%d swaps of %d waiters that left failed", failed, n)
	}
}

// committing is a store that needs some time for each call. With rows, a change locks its document until it is
// durable, as in a database; otherwise all changes need that time, also those that are refused, as in a log that is
// replicated.
type committing struct {
	*castest.Timed
	rows   bool
	mu     sync.Mutex
	locked map[cas.Key]chan struct{} // with an element while the document is locked

	swapped, failed, others atomic.Int64 // swaps of resources, and those of other documents
}

const (
	oneWay = 200 * time.Microsecond
	commit = 2 * time.Millisecond
)

func newCommitting(rows bool) *committing {
	return &committing{Timed: &castest.Timed{Memory: castest.NewMemory(), Clock: time.Now}, rows: rows, locked: make(map[cas.Key]chan struct{})}
}

func (s *committing) Read(ctx context.Context, reads []cas.Read) ([]cas.Doc, error) {
	hop()
	defer hop()
	return s.Timed.Read(ctx, reads)
}

func (s *committing) Swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	hop()
	defer hop()
	if !s.rows {
		travel(commit)
		return s.swap(ctx, changes)
	}
	for _, c := range changes {
		row := s.row(c.Key)
		row <- struct{}{}
		defer func() { <-row }()
		docs, err := s.Timed.Read(ctx, []cas.Read{{Key: c.Key}})
		if err != nil {
			return nil, err
		}
		if docs[0].Rev == c.Rev {
			travel(commit)
		}
	}
	return s.swap(ctx, changes)
}

// swap counts swaps.
func (s *committing) swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	outs, err := s.Timed.Swap(ctx, changes)
	for i, o := range outs {
		switch {
		case changes[i].Key.Space != cas.Resources:
			s.others.Add(1)
		case o.Swapped:
			s.swapped.Add(1)
		default:
			s.failed.Add(1)
		}
	}
	return outs, err
}

func (s *committing) row(k cas.Key) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locked[k] == nil {
		s.locked[k] = make(chan struct{}, 1)
	}
	return s.locked[k]
}

// hop passes the time of a message. No two are equal, or two processes could tie in each race, and the same one win it.
func hop() { travel(3*oneWay/4 + rand.N(oneWay/2)) }

// travel passes time of a synctest bubble.
func travel(d time.Duration) { <-time.After(d) }
