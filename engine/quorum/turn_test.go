package quorum_test

import (
	"errors"
	"sync"
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

// leave ends what the engine does for clients.
func (c *cluster) leave(clients ...string) {
	for _, client := range clients {
		c.Leave(client)
	}
}

// One who waits asks each node once a second, and is told when the lease is released.
func TestWhoWaitsAsksOnceASecond(t *testing.T) {
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
			t.Errorf("one who waits, and a holder, asked a node %d times in 10 s", calls)
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

// Who loops waits behind those who have waited longer, whatever the clocks say: so all
// processes get as many turns, and a writer gets in between readers that overlap.
func TestTurnsBetweenProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		end := time.Now().Add(20 * time.Second)
		turns := make([]int, 5)
		var all sync.WaitGroup
		for i := range turns {
			m := c.process(t).Mutex("stock")
			all.Go(func() {
				for time.Now().Before(end) {
					l, err := m.Lock(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					<-time.After(5 * time.Millisecond)
					turns[i]++
					if err := l.Release(t.Context()); err != nil {
						t.Error(err)
					}
				}
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
				for time.Now().Before(end) {
					l, err := rw.RLock(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					<-time.After(hold)
					if err := l.Release(t.Context()); err != nil {
						t.Error(err)
					}
				}
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

// What no longer waits is in nobody's way: it was granted by a majority, or has ended.
func TestTurnsLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		defer c.leave("a", "b", "c", "d", "dead", "live")
		held := c.hold(t, "a.1")
		waits := asks("b.1")
		waits.Queue = true
		if a, err := c.Acquire(t.Context(), waits); err != nil || a.Status != engine.Queued {
			t.Fatalf("got %+v, %v, want it queued", a, err)
		}
		c.give(t, held)
		var busy engine.Answer
		if a, err := c.Acquire(t.Context(), asks("c.1")); err != nil || a.Status != engine.Busy {
			t.Fatalf("got %+v, %v, want it busy: another waits", a, err)
		} else {
			busy = a
		}
		if busy.Waiters != 1 {
			t.Errorf("got %+v, want one who waits", busy)
		}
		if err := c.Release(t.Context(), engine.Release{Resource: stock, Held: engine.Held{ID: "b.1"}, Withdraw: true}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		c.nothing(t, "b")
		held = c.hold(t, "c.2")
		// A node has granted the lease to nobody, and another waits there alone.
		c.nodes[2].set(dead)
		waits.ID = "d.1"
		if a, err := c.Acquire(t.Context(), waits); err != nil || a.Status != engine.Queued {
			t.Fatalf("got %+v, %v, want it queued", a, err)
		}
		c.nodes[2].set(healthy)
		c.give(t, held)
		if a, err := c.Acquire(t.Context(), waits); err != nil || a.Status != engine.Granted {
			t.Fatalf("got %+v, %v, want it granted", a, err)
		} else if err := c.Release(t.Context(), engine.Release{Resource: stock, Held: engine.Held{ID: "d.1", Token: a.Token}}); err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Second)
		c.nothing(t, "d")
	})
}

// One who died costs those behind it the time for which a node keeps its turn.
func TestDeadTurnCostsOneWaiterLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		defer c.leave("a", "b", "c", "d", "dead", "live")
		held := c.hold(t, "a.1")
		dead := asks("dead.1")
		dead.Queue = true
		if _, err := c.Acquire(t.Context(), dead); err != nil {
			t.Fatal(err)
		}
		c.give(t, held)
		start := time.Now()
		for {
			a, err := c.Acquire(t.Context(), asks("live.1"))
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

// A node that comes last may grant the later of two ballots and put the turn into its
// line for the earlier one, which it runs second. The answers come in the other order.
func TestATurnThatALateBallotLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		defer c.leave("a", "b")
		held := c.hold(t, "a.1")
		waits := asks("b.1")
		waits.Queue = true
		late := c.nodes[2]
		late.slow(100*time.Millisecond, 0)
		if a, err := c.Acquire(t.Context(), waits); err != nil || a.Status != engine.Queued {
			t.Fatalf("got %+v, %v, want it queued", a, err)
		}
		late.slow(0, 200*time.Millisecond)
		c.give(t, held)
		a, err := c.Acquire(t.Context(), waits)
		if err != nil || a.Status != engine.Granted {
			t.Fatalf("got %+v, %v, want it granted", a, err)
		}
		<-time.After(150 * time.Millisecond)
		if s, err := late.Engine.Snapshot(t.Context(), stock); err != nil || len(s.Holders) != 1 || len(s.Waiters) != 1 {
			t.Fatalf("got %+v, %v, want the late node to have lease and turn", s, err)
		}
		late.slow(0, 0)
		<-time.After(100 * time.Millisecond)
		c.give(t, engine.Held{ID: "b.1", Token: a.Token})
		synctest.Wait()
		c.nothing(t, "b")
	})
}
