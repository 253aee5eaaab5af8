package quorum_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// process returns a client with a quorum of its own over the same nodes.
func (c *cluster) process(t *testing.T) *holdfast.Client {
	t.Helper()
	var nodes []engine.Engine
	for _, n := range c.nodes {
		nodes = append(nodes, n)
	}
	client, err := holdfast.New(quorum.New(nodes...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func mustLock(t *testing.T, l *holdfast.Lease, err error) *holdfast.Lease {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// takeTurns acquires, holds and releases until an instant, and returns how often it held.
func takeTurns(t *testing.T, lock func(context.Context) (*holdfast.Lease, error), hold time.Duration, end time.Time) (turns int) {
	for time.Now().Before(end) {
		l, err := lock(t.Context())
		if err != nil {
			t.Error(err)
			return turns
		}
		<-time.After(hold)
		turns++
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	return turns
}

// leaveAll calls Leave for several clients.
func (c *cluster) leaveAll(clients ...string) {
	for _, client := range clients {
		c.Leave(client)
	}
}

// A waiter calls each node once a second, and is woken when the lease is released.
func TestWaiterCallsEachNodeOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		held, err := c.process(t).Mutex("stock").Lock(t.Context())
		mustLock(t, held, err)
		waiter := c.process(t)
		in := make(chan time.Time)
		go func() {
			l, err := waiter.Mutex("stock").Lock(t.Context())
			if err != nil {
				t.Error(err)
			}
			entered := time.Now()
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
			in <- entered
		}()
		<-time.After(2500 * time.Millisecond)
		before := c.nodes[0].count()
		<-time.After(10 * time.Second)
		if calls := c.nodes[0].count() - before; calls > 10*2 { // with the renewals of the holder
			t.Errorf("for a waiter and a holder a node was called %d times in 10 s", calls)
		}
		start := time.Now()
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := (<-in).Sub(start); took > 20*time.Millisecond {
			t.Errorf("in %v after the release, want at once", took)
		}
	})
}

// A process that loops waits behind processes that have waited longer, even if clocks differ: all
// processes get the same number of turns.
func TestTurnsBetweenProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		end := time.Now().Add(20 * time.Second)
		turns := make([]int, 5)
		var all sync.WaitGroup
		for i := range turns {
			m := c.process(t).Mutex("stock")
			all.Go(func() {
				turns[i] = takeTurns(t, m.Lock, 5*time.Millisecond, end)
			})
		}
		all.Wait()
		for i, n := range turns {
			if 10*n < 7*turns[0] || 7*n > 10*turns[0] {
				t.Errorf("process %d had %d turns, the first %d", i, n, turns[0])
			}
		}
		if turns[0] < 200 {
			t.Errorf("%v turns in 20 s of 5 ms each", turns)
		}
	})
}

// A process with one caller and a process with four alternate by slices of 10 ms or one turn, if that takes longer.
func TestSlicesOfOneCallerAgainstFour(t *testing.T) {
	for hold, turnsInASlice := range map[time.Duration]int64{12 * time.Millisecond: 1, 5 * time.Millisecond: 2} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(3)
			end := time.Now().Add(6 * time.Second)
			var turns [2]atomic.Int64
			var all sync.WaitGroup
			for process, callers := range []int{1, 4} {
				m := c.process(t).Mutex("stock")
				for range callers {
					all.Go(func() {
						turns[process].Add(int64(takeTurns(t, m.Lock, hold, end)))
					})
				}
			}
			all.Wait()
			one, four := turns[0].Load()*turnsInASlice, turns[1].Load()
			if 10*one < 9*four || 10*four < 9*one || four < 150 {
				t.Errorf("turns of %v: one caller had %d, four had %d", hold, turns[0].Load(), four)
			}
		})
	}
}

// Readers overlap without a gap. The writer waits only for the readers that were there before it.
func TestWriterIsNotStarvedByReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		const hold = 150 * time.Millisecond
		end := time.Now().Add(10 * time.Second)
		var all sync.WaitGroup
		for i := range 8 {
			rw := c.process(t).RWMutex("table")
			all.Go(func() {
				<-time.After(time.Duration(i) * hold / 8)
				takeTurns(t, rw.RLock, hold, end)
			})
		}
		rw := c.process(t).RWMutex("table")
		for range 20 {
			<-time.After(hold * 4 / 3)
			start := time.Now()
			l, err := rw.Lock(t.Context())
			mustLock(t, l, err)
			if took := time.Since(start); took > 2*hold {
				t.Errorf("the writer waited for %v, readers hold for %v", took, hold)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
		all.Wait()
	})
}

// A turn that no longer waits, since a majority granted it or it was withdrawn, blocks no other.
func TestEndedTurnsBlockNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		defer c.leaveAll("a", "b", "c", "d", "dead", "live")
		held := c.mustAcquire(t, "a.1")
		waits := mutexRequest("b.1")
		waits.Queue = true
		if a, err := c.Acquire(t.Context(), waits); err != nil || a.Status != engine.Queued {
			t.Fatalf("got %+v, %v, want it queued", a, err)
		}
		c.mustRelease(t, held)
		var busy engine.Answer
		if a, err := c.Acquire(t.Context(), mutexRequest("c.1")); err != nil || a.Status != engine.Busy {
			t.Fatalf("got %+v, %v, want it busy: another waits", a, err)
		} else {
			busy = a
		}
		if busy.Waiters != 1 {
			t.Errorf("got %+v, want one waiter", busy)
		}
		if err := c.Release(t.Context(), engine.Release{Resource: stock, Held: engine.Held{ID: "b.1"}, Withdraw: true}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		c.wantNothingOf(t, "b")
		held = c.mustAcquire(t, "c.2")
		// No node has granted the lease, and another client waits there alone.
		c.nodes[2].set(dead)
		waits.ID = "d.1"
		if a, err := c.Acquire(t.Context(), waits); err != nil || a.Status != engine.Queued {
			t.Fatalf("got %+v, %v, want it queued", a, err)
		}
		c.nodes[2].set(healthy)
		c.mustRelease(t, held)
		if a, err := c.Acquire(t.Context(), waits); err != nil || a.Status != engine.Granted {
			t.Fatalf("got %+v, %v, want it granted", a, err)
		} else if err := c.Release(t.Context(), engine.Release{Resource: stock, Held: engine.Held{ID: "d.1", Token: a.Token}}); err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Second)
		c.wantNothingOf(t, "d")
	})
}

// A dead waiter delays the waiters behind it for as long as a node keeps its turn.
func TestDeadTurnCostsOneWaiterLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		defer c.leaveAll("a", "b", "c", "d", "dead", "live")
		held := c.mustAcquire(t, "a.1")
		dead := mutexRequest("dead.1")
		dead.Queue = true
		if _, err := c.Acquire(t.Context(), dead); err != nil {
			t.Fatal(err)
		}
		c.mustRelease(t, held)
		start := time.Now()
		for {
			a, err := c.Acquire(t.Context(), mutexRequest("live.1"))
			if err != nil && !errors.Is(err, engine.ErrUnavailable) {
				t.Fatal(err)
			}
			if a.Status == engine.Granted {
				break
			}
			<-time.After(100 * time.Millisecond)
		}
		if took := time.Since(start); took > engine.WaiterLife+200*time.Millisecond {
			t.Errorf("a dead one cost %v, want %v at most", took, engine.WaiterLife)
		}
	})
}

// A slow node grants the later of two ballots and puts the turn into its queue for the earlier one,
// which it runs second. The answers come in the other order.
//
// Whether the ballots cross depends on random pauses of the engine, so the test is
// repeated until they do.
func TestTurnThatALateBallotLeaves(t *testing.T) {
	for range 30 {
		crossed := false
		synctest.Test(t, func(t *testing.T) { crossed = crossBallots(t) })
		if crossed {
			return
		}
	}
	t.Fatal("no ballots crossed")
}

// crossBallots makes the earlier ballot of a waiter reach the late node after the later one, if
// the engine sends the later one soon enough. It then releases the lease, after which nothing may
// be left.
func crossBallots(t *testing.T) (crossed bool) {
	c := newCluster(3)
	defer c.leaveAll("a", "b")
	// A ballot for a resource of capacity 1 would not call a slow node.
	writer := func(id string) engine.Request {
		r := mutexRequest(id)
		r.Kind, r.Capacity, r.Weight = engine.KindRW, 8, 8
		return r
	}
	held := c.mustGrant(t, writer("a.1"))
	waits := writer("b.1")
	waits.Queue = true
	late := c.nodes[2]
	late.slow(100*time.Millisecond, 0)
	if a, err := c.Acquire(t.Context(), waits); err != nil || a.Status != engine.Queued {
		t.Fatalf("got %+v, %v, want it queued", a, err)
	}
	late.slow(0, 200*time.Millisecond)
	c.mustRelease(t, held)
	a, err := c.Acquire(t.Context(), waits)
	if err != nil || a.Status != engine.Granted {
		t.Fatalf("got %+v, %v, want it granted", a, err)
	}
	<-time.After(150 * time.Millisecond)
	s, err := late.Engine.Snapshot(t.Context(), stock)
	if err != nil {
		t.Fatal(err)
	}
	crossed = len(s.Holders) == 1 && len(s.Waiters) == 1
	late.slow(0, 0)
	<-time.After(100 * time.Millisecond)
	c.mustRelease(t, engine.Held{ID: "b.1", Token: a.Token})
	if !crossed {
		<-time.After(time.Second) // the release may wait for an answer
	}
	synctest.Wait()
	c.wantNothingOf(t, "b")
	return crossed
}

// A waiter whose ballot one of two nodes has not answered leaves no turn there.
func TestWaiterIsReleasedWhileItsBallotIsUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(2)
		held := c.mustAcquire(t, "other.a")
		synctest.Wait()
		c.nodes[1].slow(0, 50*time.Millisecond)
		r := mutexRequest("mine.a")
		r.Queue = true
		if a, err := c.Acquire(t.Context(), r); err != nil || a.Status != engine.Queued {
			t.Fatal(a, err)
		}
		synctest.Wait()
		c.nodes[1].slow(0, 0)
		if err := c.Release(t.Context(), engine.Release{Resource: stock, Held: engine.Held{ID: r.ID}}); err != nil {
			t.Fatal(err)
		}
		c.mustRelease(t, held)
		if a, err := c.Acquire(t.Context(), mutexRequest("mine.b")); err != nil || a.Status != engine.Granted {
			t.Errorf("got %+v, %v", a, err)
		}
		c.Leave("mine")
		c.Leave("other")
		<-time.After(time.Minute)
	})
}
