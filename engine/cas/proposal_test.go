package cas_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// A request whose process loses races is joined by the process of a waiter. If that gets the proposal when
// the request has long been granted and released, or was given up, it drops it.
func TestProposal(t *testing.T) {
	for name, is := range map[string]struct{ late, leaves, again bool }{
		"in time":         {},
		"late":            {late: true},
		"late, given up":  {late: true, leaves: true},
		"twice, given up": {leaves: true},
		// The first try of its release fails, as a client's queue of releases repeats it.
		"late, given up at the second try": {late: true, leaves: true, again: true},
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { propose(t, is.late, is.leaves, is.again) }) })
	}
}

func propose(t *testing.T, late, leaves, releasedAgain bool) {
	m := castest.NewMemory()
	mine := &hooked{DocumentStore: m}
	holder, waiter, newcomer := cas.New(m, 0), cas.New(m, 0), cas.New(mine, 0)
	l, err := waiter.Listen(t.Context(), "p", "waiter", func(engine.Wakeup) {})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	h, w, n := request("holder.1", time.Minute, false), request("waiter.1", time.Minute, true), request("newcomer.1", time.Minute, true)
	held := acquire(t, holder, h, engine.Granted)
	acquire(t, waiter, w, engine.Queued)

	// Others are first until the newcomer has proposed its request.
	var proposals []cas.Change
	mine.swap = func(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
		switch {
		case changes[0].Key.Space == cas.Clients:
			proposals = append(proposals, slices.Clone(changes)...)
			if late {
				return []cas.Outcome{{Swapped: true, Doc: cas.Doc{Rev: 1}}}, nil
			}
		case len(proposals) == 0:
			travel(time.Millisecond)
			if err := renew(t, holder, h, held.Token); err != nil {
				t.Error(err)
			}
		}
		return m.Swap(ctx, changes)
	}
	if a := acquire(t, newcomer, n, engine.Queued); a.Position != 1 {
		t.Errorf("%d are ahead of the newcomer, want 1", a.Position)
	}
	if len(proposals) == 0 || len(proposals[0].Messages) != 1 {
		t.Fatalf("the newcomer has proposed %v", proposals)
	}
	again := func() {
		t.Helper()
		proposals[0].Rev, proposals[0].Key.Name = 0, proposals[0].Key.Name+"'"
		if _, err := m.Swap(t.Context(), proposals[:1]); err != nil {
			t.Fatal(err)
		}
		travel(time.Second)
	}
	leave := engine.Release{Resource: n.Resource, Held: engine.Held{ID: n.ID}}
	if releasedAgain {
		swap, down := mine.swap, errors.New("connection reset")
		mine.swap = func(context.Context, []cas.Change) ([]cas.Outcome, error) { return nil, down }
		mine.read = func(context.Context, []cas.Read) ([]cas.Doc, error) { return nil, down }
		if err := newcomer.Release(t.Context(), leave); !errors.Is(err, engine.ErrUnavailable) {
			t.Fatalf("got %v", err)
		}
		mine.swap, mine.read = swap, nil
	}
	if leaves {
		if err := newcomer.Release(t.Context(), leave); err != nil {
			t.Fatal(err)
		}
		again()
		acquire(t, waiter, w, engine.Queued)
		s, err := holder.Snapshot(t.Context(), h.Resource)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Waiters) != 1 {
			t.Errorf("the waiter that has left waits again: %v", s.Waiters)
		}
	}
	release(t, holder, h, held.Token)
	release(t, waiter, w, acquire(t, waiter, w, engine.Granted).Token)
	if !leaves {
		release(t, newcomer, n, acquire(t, newcomer, n, engine.Granted).Token)
	}
	again()
	s, err := holder.Snapshot(t.Context(), h.Resource)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Holders)+len(s.Waiters) > 0 {
		t.Errorf("after a late proposal there are holders %v and waiters %v", s.Holders, s.Waiters)
	}
}

// Two processes that propose to each other do not wait for each other, or who comes later would pass them.
func TestMutualProposals(t *testing.T) {
	for range 20 { // which of them is the first at an instant differs
		synctest.Test(t, proposeMutually)
	}
}

func proposeMutually(t *testing.T) {
	m := castest.NewMemory()
	holder := cas.New(m, 0)
	h := request("holder.1", time.Minute, false)
	acquire(t, holder, h, engine.Granted)
	engines, loses := make(map[string]*cas.Engine), make(map[string]*atomic.Bool)
	for _, client := range []string{"a", "b"} {
		mine, lose := &hooked{DocumentStore: m}, &atomic.Bool{}
		engines[client], loses[client] = cas.New(mine, 0), lose
		mine.swap = func(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
			if changes[0].Key.Space == cas.Resources && lose.CompareAndSwap(true, false) {
				lost(t, m, changes[0])
			}
			return m.Swap(ctx, changes)
		}
		l, err := engines[client].Listen(t.Context(), "p", client, func(engine.Wakeup) {})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		acquire(t, engines[client], request(client+".1", time.Minute, true), engine.Queued)
	}
	var calls sync.WaitGroup
	start := time.Now()
	for client, id := range map[string]string{"a": "a.2", "b": "b.2"} {
		loses[client].Store(true)
		calls.Go(func() { acquire(t, engines[client], request(id, time.Minute, true), engine.Queued) })
	}
	calls.Wait()
	if took := time.Since(start); took >= time.Millisecond { // 10 round trips
		t.Errorf("both have joined the line after %v", took)
	}
}

// lost makes a change fail: the document gets a revision before it.
func lost(t *testing.T, m *castest.Memory, c cas.Change) {
	docs, err := m.Read(t.Context(), []cas.Read{{Key: c.Key}})
	if err == nil {
		_, err = m.Swap(t.Context(), []cas.Change{{Key: c.Key, Rev: docs[0].Rev, Value: docs[0].Value, Keep: c.Keep}})
	}
	if err != nil {
		t.Error(err)
	}
}
