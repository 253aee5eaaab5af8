package cas_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// lockable is a store of which documents can be locked. A call waits for the first of them.
type lockable struct {
	*castest.Memory

	mu    sync.Mutex
	names map[string]bool
}

// lockWait is how long a change waits for a document.
const lockWait = 500 * time.Millisecond

func newLockable(names ...string) *lockable {
	l := &lockable{Memory: castest.NewMemory(), names: make(map[string]bool)}
	for _, n := range names {
		l.set(n, true)
	}
	return l
}

func (l *lockable) set(name string, locked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names[name] = locked
}

func (l *lockable) locked(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.names[name]
}

func (l *lockable) Swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	travel(time.Millisecond) // others come meanwhile
	outs := make([]cas.Outcome, len(changes))
	waited := false
	for i, c := range changes {
		outs[i].Locked = l.locked(c.Key.Name)
		if outs[i].Locked && !waited {
			waited = true
			travel(lockWait)
			outs[i].Locked = l.locked(c.Key.Name)
		}
		if outs[i].Locked {
			continue
		}
		made, err := l.Memory.Swap(ctx, []cas.Change{c})
		if err != nil {
			return nil, err
		}
		outs[i] = made[0]
	}
	return outs, nil
}

// numbered is a request for one of several resources.
func numbered(i int) engine.Request {
	r := request("a.1", time.Minute, false)
	r.Resource.Name = fmt.Sprint(i)
	return r
}

// A document that somebody else has locked holds up the changes of it, and not those that come at the same time.
func TestLockedDocumentHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLockable("20")
		e := cas.New(s, 0)
		var others, all sync.WaitGroup
		for i := range 40 {
			group := &others
			if s.locked(fmt.Sprint(i)) {
				group = &all
			}
			group.Go(func() { acquire(t, e, numbered(i), engine.Granted) })
		}
		others.Wait()
		s.set("20", false)
		all.Wait()
	})
}

// So it is with a batch of renewals, which are not all made at the same time, and also if many are locked.
func TestLockedDocumentsHoldUpNoOtherRenewal(t *testing.T) {
	for _, names := range [][]string{{"40"}, {"3", "40", "41", "100", "101", "102", "103", "104", "105", "106", "107", "200", "230", "231", "290", "299"}} {
		synctest.Test(t, func(t *testing.T) {
			const leases, ttl = 300, time.Minute
			s := newLockable()
			e := cas.New(s, 0)
			var batch []engine.Renewal
			for i := range leases {
				r := numbered(i)
				a := acquire(t, e, r, engine.Granted)
				batch = append(batch, engine.Renewal{Resource: r.Resource, Held: engine.Held{ID: r.ID, Token: a.Token}, TTL: 2 * ttl})
			}
			for _, n := range names {
				s.set(n, true)
			}
			for range 3 {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				for i, err := range e.Renew(ctx, batch) {
					if locked := s.locked(batch[i].Resource.Name); locked != (err != nil) {
						t.Errorf("%d are locked, renewal %d: %v", len(names), i, err)
					}
				}
				cancel()
				time.Sleep(3 * time.Second)
			}
		})
	}
}

// Documents that stay locked delay the calls for others no longer than it takes to find them locked.
func TestCallsBesideLockedDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const locked, each = 200, 10 * time.Second
		s := newLockable()
		e := cas.New(s, 0)
		for i := range locked {
			s.set(fmt.Sprint(i), true)
		}
		var all sync.WaitGroup
		for i := range locked {
			all.Go(func() {
				for range 2 {
					if _, err := e.Acquire(t.Context(), numbered(i)); !errors.Is(err, engine.ErrUnavailable) || !strings.Contains(err.Error(), "locked the document") {
						t.Errorf("a locked one: %v", err)
					}
				}
			})
		}
		time.Sleep(2 * lockWait)
		end := time.Now().Add(each)
		for i := locked; time.Now().Before(end); i++ {
			began := time.Now()
			acquire(t, e, numbered(i), engine.Granted)
			if took := time.Since(began); took > lockWait/10 {
				t.Errorf("another one took %v", took)
			}
		}
		all.Wait()
		for i := range locked {
			s.set(fmt.Sprint(i), false)
			acquire(t, e, numbered(i), engine.Granted)
		}
	})
}

// A document that is not locked any more is changed by a call that waits, also while others are locked.
func TestUnlockedDocumentAmongLockedOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLockable("1", "2", "3", "4")
		e := cas.New(s, 0)
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() { _, _ = e.Acquire(t.Context(), numbered(1+i)) })
		}
		time.Sleep(time.Second)
		s.set("3", false)
		began := time.Now()
		acquire(t, e, numbered(3), engine.Granted)
		if took := time.Since(began); took > 3*lockWait {
			t.Errorf("it took %v", took)
		}
		for _, n := range []string{"1", "2", "4"} {
			s.set(n, false)
		}
		all.Wait()
	})
}

// A document is locked for 4.5 s by somebody else. A waiter for it, whose client polls on, keeps its place.
func TestAPollOfALockedDocumentKeepsThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newLockable()
		holder, a, b := cas.New(s, 0), cas.New(s, 0), cas.New(s, 0)
		named := func(name, id string, queue bool) engine.Request {
			r := request(id, time.Minute, queue)
			r.Resource.Name = name
			return r
		}
		for _, name := range []string{"r", "q"} {
			acquire(t, holder, named(name, "holder."+name, false), engine.Granted)
		}
		acquire(t, a, named("r", "a.1", true), engine.Queued)
		acquire(t, a, named("q", "a.2", true), engine.Queued)
		acquire(t, b, named("r", "b.1", true), engine.Queued)
		ctx, cancel := context.WithCancel(t.Context())
		var polls sync.WaitGroup
		poll := func(e *cas.Engine, r engine.Request) { // as a client does: each second, and 2 s at most for a call
			polls.Go(func() {
				for ctx.Err() == nil {
					time.Sleep(time.Second)
					call, end := context.WithTimeout(ctx, 2*time.Second)
					_, _ = e.Acquire(call, r)
					end()
				}
			})
		}
		poll(a, named("r", "a.1", true))
		poll(a, named("q", "a.2", true))
		poll(b, named("r", "b.1", true))
		time.Sleep(5500 * time.Millisecond)
		s.set("r", true) // a swap of it is refused from now on
		seen := func() (ids []string) {
			snap, err := holder.Snapshot(t.Context(), engine.Resource{Prefix: "p", Name: "r"})
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range snap.Waiters {
				ids = append(ids, w.ID)
			}
			return ids
		}
		before := seen()
		poll(a, named("r", "a.3", true)) // joins meanwhile, behind the others
		time.Sleep(4500 * time.Millisecond)
		s.set("r", false)
		time.Sleep(3 * time.Second)
		if after := seen(); len(after) < 2 || !slices.Equal(before, after[:2]) {
			t.Errorf("the line was %v, and is %v after the document was locked for 4.5 s", before, after)
		}
		cancel()
		polls.Wait()
	})
}
