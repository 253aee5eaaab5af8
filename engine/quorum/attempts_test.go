package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/engine/quorum"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// heap returns the number of bytes in use.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// withdraw withdraws an attempt whose outcome may be unknown.
func (c *cluster) withdraw(t *testing.T, id string) {
	t.Helper()
	r := engine.Release{Resource: stock, Held: engine.Held{ID: id}, Withdraw: true}
	if err := c.Release(t.Context(), r); err != nil && !errors.Is(err, engine.ErrUnavailable) {
		t.Fatal(err)
	}
}

// wantEnded checks that a request of the attempt returns ErrEnded.
func (c *cluster) wantEnded(t *testing.T, id string) {
	t.Helper()
	if a, err := c.Acquire(t.Context(), mutexRequest(id)); !errors.Is(err, engine.ErrEnded) {
		t.Errorf("%s was withdrawn, and then: %v, %v", id, a.Status, err)
	}
}

// Attempts fail while the nodes are dead, and are withdrawn: a tombstone is kept of each.
func TestWithdrawnAttemptsAreSmall(t *testing.T) {
	const most = 300 // bytes for each
	attempts := redistest.Scale(1000, 20_000)
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		c.mustRelease(t, c.mustAcquire(t, "mine.first"))
		time.Sleep(time.Second)
		for _, n := range c.nodes {
			n.set(dead)
		}
		before := heap()
		for i := range attempts {
			id := fmt.Sprintf("mine.%d", i)
			if a, err := c.Acquire(t.Context(), mutexRequest(id)); !errors.Is(err, engine.ErrUnavailable) {
				t.Fatalf("all are dead: %v, %v", a.Status, err)
			}
			c.withdraw(t, id)
		}
		time.Sleep(time.Minute) // calls to the nodes are not repeated any longer
		each := (heap() - before) / attempts
		kept, ended := quorum.Attempts(c.Engine)
		t.Logf("%d attempts: %d bytes for each, %d kept, %d ended", attempts, each, kept, ended)
		if each > most || kept > 0 || ended != attempts {
			t.Errorf("%d bytes are kept for each of %d withdrawn attempts, want at most %d", each, attempts, most)
		}
		c.wantEnded(t, "mine.0")
		for _, n := range c.nodes {
			n.set(healthy)
		}
		c.wantEnded(t, fmt.Sprintf("mine.%d", attempts-1))
		c.Leave("mine")
		time.Sleep(11 * time.Minute)
		c.withdraw(t, "mine.last")
		if _, ended := quorum.Attempts(c.Engine); ended != 1 {
			t.Errorf("%d are remembered after their time", ended)
		}
		c.Leave("mine")
		time.Sleep(time.Minute)
	})
}

// Leases that end without a release, and are never used again, are not kept; a repeated request is told how
// each ended.
func TestExpiredAttemptsAreNotKept(t *testing.T) {
	const leases = 100
	for _, how := range []string{"lost at a renewal", "lost at the release", "broken"} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(3)
				var all []engine.Renewal
				for i := range leases {
					r := mutexRequest(fmt.Sprintf("mine.%d", i))
					r.Resource.Name = fmt.Sprint(i)
					all = append(all, engine.Renewal{Resource: r.Resource, Held: c.mustGrant(t, r), TTL: long})
				}
				time.Sleep(time.Second)
				if how != "broken" {
					for _, n := range c.nodes {
						n.mu.Lock()
						n.Engine = memory.New()
						n.mu.Unlock()
					}
				}
				for i, x := range all {
					var err error
					switch how {
					case "lost at a renewal":
						err = c.Renew(t.Context(), all[i:i+1])[0]
					case "broken":
						if err := c.Break(t.Context(), x.Resource, engine.Break{ID: x.ID, Token: x.Token}); err != nil {
							t.Fatal(err)
						}
						fallthrough
					default:
						err = c.Release(t.Context(), engine.Release{Resource: x.Resource, Held: x.Held})
					}
					if err == nil {
						t.Fatal("it had ended before")
					}
				}
				time.Sleep(5 * time.Minute)
				c.mustRelease(t, c.mustAcquire(t, "mine.last"))
				if kept, _ := quorum.Attempts(c.Engine); kept > 0 {
					t.Errorf("%d attempts are kept", kept)
				}
				r := mutexRequest(all[0].ID)
				r.Resource = all[0].Resource
				if a, err := c.Acquire(t.Context(), r); !errors.Is(err, engine.ErrEnded) {
					t.Errorf("repeated: %v, %v", a.Status, err)
				}
				c.Leave("mine")
				time.Sleep(time.Minute)
			})
		})
	}
}

// A waiter of a condition that was signalled leaves nothing in its process.
func TestSignalledWaitersAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		client := open(t, c)
		m := client.Mutex("m")
		cond := m.Cond("c")
		const rounds = 100
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for range rounds {
				l, err := m.Lock(t.Context())
				if err == nil {
					l, err = cond.Wait(t.Context(), l)
				}
				if err != nil {
					t.Error(err)
					return
				}
				_ = l.Release(t.Context())
			}
		}()
		for range rounds {
			time.Sleep(100 * time.Millisecond)
			if err := cond.Signal(t.Context()); err != nil {
				t.Error(err)
			}
		}
		<-ended
		time.Sleep(5 * time.Minute)
		_ = m.Do(t.Context(), func(context.Context) error { return nil })
		if kept, _ := quorum.Attempts(c.Engine); kept > 2 {
			t.Errorf("%d attempts are kept", kept)
		}
		_ = client.Close()
	})
}

// Above the cap the oldest tombstones are removed.
func TestTombstonesAreCapped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(1)
		quorum.FillEnded(c.Engine)
		for i := range 10 {
			c.withdraw(t, fmt.Sprintf("mine.%d", i))
		}
		if kept, ended := quorum.Attempts(c.Engine); kept > 0 || ended != quorum.MostEnded {
			t.Errorf("%d attempts are kept, and of %d it is known how they ended", kept, ended)
		}
		for i := range 10 {
			c.wantEnded(t, fmt.Sprintf("mine.%d", i))
		}
		c.Leave("mine")
		time.Sleep(time.Minute)
	})
}
