package cas_test

import (
	"context"
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
	"github.com/holdfast-go/holdfast/engine/enginetest"
)

// newAged returns a store without a clock that knows how old its documents are.
func newAged() castest.Aged { return castest.Aged{Memory: castest.NewMemory()} }

func TestAgedStore(t *testing.T) {
	castest.Run(t, func(testing.TB) cas.DocumentStore { return newAged() })
}

func TestConformanceWithAges(t *testing.T) {
	shared := cas.New(newAged(), 0)
	enginetest.Run(t, func(testing.TB) engine.Engine { return shared })
}

// request is one for a mutex, by a process of its own.
func request(id string, ttl time.Duration, queue bool) engine.Request {
	return engine.Request{Resource: engine.Resource{Prefix: "p", Name: "n"}, ID: id, Client: &engine.Client{ID: engine.ClientOf(id)},
		Kind: engine.KindMutex, Capacity: 1, Weight: 1, TTL: ttl, Queue: queue}
}

// newcomer makes one request in a process that has never seen the resource.
func newcomer(t *testing.T, s cas.DocumentStore, r engine.Request) engine.Answer {
	t.Helper()
	a, err := cas.New(s, 0).Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// The lease of a dead holder is over for a process that sees it for the first time, if the store
// knows how old it is, and not before.
func TestNewcomerAfterADeadHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newAged()
		holder := newcomer(t, s, request("a.1", time.Second, false))
		time.Sleep(time.Second - time.Millisecond)
		if a := newcomer(t, s, request("b.1", time.Second, false)); a.Status != engine.Busy {
			t.Errorf("before the TTL was over: %v", a.Status)
		}
		time.Sleep(2 * time.Millisecond)
		if a := newcomer(t, s, request("c.1", time.Second, false)); a.Status != engine.Granted || a.Token <= holder.Token {
			t.Errorf("after the TTL was over: %v with token %d after %d", a.Status, a.Token, holder.Token)
		}
	})
}

// Processes that wait for less than the TTL, one after the other, find together that a holder is
// dead: each leaves in the document for how long its lease has been seen.
func TestBriefWaitersEndADeadLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 10 * time.Second
		s := castest.NewMemory() // it knows no ages
		newcomer(t, s, request("dead.1", ttl, false))
		began := time.Now()
		for _, id := range []string{"b", "c", "d", "e", "f", "g", "h"} {
			e := cas.New(s, 0)
			r := request(id+".1", ttl, true)
			for range 3 {
				a, err := e.Acquire(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				if a.Status == engine.Granted {
					if waited := time.Since(began); waited < ttl || waited > ttl+4*time.Second {
						t.Errorf("granted %v after the holder died with a TTL of %v", waited, ttl)
					}
					return
				}
				time.Sleep(time.Second)
			}
			if err := e.Release(t.Context(), engine.Release{Resource: r.Resource, Held: engine.Held{ID: r.ID}, Withdraw: true}); err != nil {
				t.Fatal(err)
			}
		}
		t.Errorf("nobody was granted the lease within %v", time.Since(began))
	})
}

// A lease that is renewed never ends, whoever comes and goes meanwhile.
func TestRenewedLeaseIsNotOld(t *testing.T) {
	for name, s := range map[string]cas.DocumentStore{"aged": newAged(), "ageless": castest.NewMemory()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const ttl = 3 * time.Second
				holder := cas.New(s, 0)
				r := request("holder.1", ttl, false)
				lease, err := holder.Acquire(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				for i := range 20 {
					e, id := cas.New(s, 0), "w"+string(rune('a'+i))+".1"
					if a, err := e.Acquire(t.Context(), request(id, ttl, i%2 == 0)); err != nil || a.Status == engine.Granted {
						t.Fatalf("newcomer %d: %v, %v", i, a.Status, err)
					}
					time.Sleep(ttl/3 - time.Millisecond)
					if err := e.Release(t.Context(), engine.Release{Resource: r.Resource, Held: engine.Held{ID: id}, Withdraw: true}); err != nil {
						t.Fatal(err)
					}
					if i%2 == 1 { // every 2 s, of 3
						errs := holder.Renew(t.Context(), []engine.Renewal{{Resource: r.Resource, Held: engine.Held{ID: r.ID, Token: lease.Token}, TTL: ttl}})
						if errs[0] != nil {
							t.Fatal(errs[0])
						}
					}
				}
			})
		})
	}
}

// The time to forget a document is by the clock of the machine that wrote it. Another machine, whose
// clock is an hour ahead, does not forget a document that has a holder.
func TestClockAheadForgetsNoHolder(t *testing.T) {
	s := castest.NewMemory()
	newcomer(t, s, request("a.1", time.Hour, false))
	setForget(t, s, 1)
	if a := newcomer(t, s, request("b.1", time.Hour, false)); a.Status != engine.Busy || a.Holder.ID != "a.1" {
		t.Errorf("%v, and the holder is %q", a.Status, a.Holder.ID)
	}
}

// A change by a machine whose clock is far ahead does not make the store delete a document that has a
// holder.
func TestClockAheadKeepsADocumentWithAHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := castest.NewMemory()
		holder := cas.New(s, 0)
		r := request("a.1", time.Hour, false)
		acquire(t, holder, r, engine.Granted)
		acquire(t, holder, request("b.1", time.Minute, true), engine.Queued)
		setForget(t, s, 1) // a time that is over by the clock of the machine that makes the next change
		if err := cas.New(s, 0).Break(t.Context(), r.Resource, engine.Break{ID: "b.1"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		acquire(t, cas.New(s, 0), request("c.1", time.Minute, false), engine.Busy)
	})
}

// setForget sets the time to forget of a document, as another machine's clock may have it.
func setForget(t *testing.T, s cas.DocumentStore, at uint64) {
	t.Helper()
	key := cas.Key{Space: cas.Resources, Prefix: "p", Name: "n"}
	docs, err := s.Read(t.Context(), []cas.Read{{Key: key}})
	if err != nil {
		t.Fatal(err)
	}
	old := docs[0].Value
	binary.BigEndian.PutUint64(old[1:], at) // it follows the version
	if outs, err := s.Swap(t.Context(), []cas.Change{{Key: key, Rev: docs[0].Rev, Value: old, Keep: 2 * time.Hour}}); err != nil || !outs[0].Swapped {
		t.Fatal(outs, err)
	}
}

// A change by such a machine keeps the document for as long as its holder may have its lease.
func TestClockAheadKeepsADocument(t *testing.T) {
	const ttl = time.Hour
	s := &keeper{Memory: castest.NewMemory()}
	newcomer(t, s, request("a.1", ttl, false))
	key := cas.Key{Space: cas.Resources, Prefix: "p", Name: "n"}
	docs, err := s.Read(t.Context(), []cas.Read{{Key: key}})
	if err != nil {
		t.Fatal(err)
	}
	old := docs[0].Value
	binary.BigEndian.PutUint64(old[1:], 1) // the time to forget follows the version
	if outs, err := s.Swap(t.Context(), []cas.Change{{Key: key, Rev: docs[0].Rev, Value: old, Keep: ttl}}); err != nil || !outs[0].Swapped {
		t.Fatal(outs, err)
	}
	ahead := cas.New(s, 0)
	if a, err := ahead.Acquire(t.Context(), request("b.1", time.Second, true)); err != nil || a.Status != engine.Queued {
		t.Fatalf("%v, %v", a.Status, err)
	}
	if s.latest < ttl {
		t.Errorf("a document with a lease of %v is kept for %v", ttl, s.latest)
	}
}

// keeper is a store that records for how long the latest change is to be kept.
type keeper struct {
	*castest.Memory
	latest time.Duration
}

func (k *keeper) Swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	k.latest = changes[len(changes)-1].Keep
	return k.Memory.Swap(ctx, changes)
}
