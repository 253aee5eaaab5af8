package quorum_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

func open(t *testing.T, c *cluster) *holdfast.Client {
	t.Helper()
	client, err := holdfast.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Of many waiters of one process, one calls the nodes; and all are granted at once when the
// resource is free.
func TestManyWaitersOfOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		a, b := open(t, c), open(t, c)
		held, err := a.RWMutex("stock").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		var released time.Time
		for range 50 {
			all.Go(func() {
				l, err := b.RWMutex("stock").RLock(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if took := time.Since(released); took > 10*time.Millisecond {
					t.Errorf("in after %v", took)
				}
				time.Sleep(time.Second)
				if err := l.Release(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(5 * time.Second)
		before := c.nodes[0].count()
		time.Sleep(10 * time.Second)
		if calls := c.nodes[0].count() - before; calls > 40 {
			t.Errorf("for 50 waiters a node was called %d times in 10 s", calls)
		}
		released = time.Now()
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		all.Wait()
		_, _ = a.Close(), b.Close()
	})
}

// joinOnce makes a waiter for the mutex "stock" of this process's clients that polls no more.
func (c *cluster) joinOnce(t *testing.T, id string) {
	t.Helper()
	r := mutexRequest(id)
	r.Resource.Prefix, r.Resource.Name, r.Queue = holdfast.DefaultPrefix, "stock", true
	if _, err := c.Acquire(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// A waiter behind the first one stops polling without a call. The one after it is woken when the first is done.
func TestADeadWaiterBehindTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		a, b, d := open(t, c), open(t, c), open(t, c)
		held, err := a.Mutex("stock").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan time.Time, 2)
		lock := func(client *holdfast.Client) {
			if err := client.Mutex("stock").Do(t.Context(), func(context.Context) error { got <- time.Now(); return nil }); err != nil {
				t.Error(err)
			}
		}
		go lock(b)
		time.Sleep(100 * time.Millisecond)
		c.joinOnce(t, "dead.1")
		go lock(d)
		time.Sleep(2*engine.WaiterLife + 100*time.Millisecond)
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		first := <-got
		if took := (<-got).Sub(first); took > 100*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		_, _, _ = a.Close(), b.Close(), d.Close()
		c.Leave("dead")
	})
}

// A request is withdrawn while the nodes have not answered its ballot. It does not delay the next one.
func TestAWaiterWithdrawsDuringItsBallot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		h := c.mustAcquire(t, "mine.holder")
		time.Sleep(time.Second)
		for _, n := range c.nodes {
			n.slow(10*time.Millisecond, 10*time.Millisecond)
		}
		request := func(id string) engine.Request {
			r := mutexRequest(id)
			r.Queue = true
			return r
		}
		answered := make(chan bool)
		go func() {
			_, _ = c.Acquire(t.Context(), request("mine.a"))
			close(answered)
		}()
		time.Sleep(5 * time.Millisecond)
		c.withdraw(t, "mine.a")
		<-answered
		c.mustRelease(t, h)
		free := time.Now()
		for {
			a, err := c.Acquire(t.Context(), request("mine.b"))
			if err != nil {
				t.Fatal(err)
			}
			if a.Status == engine.Granted {
				break
			}
			time.Sleep(100 * time.Millisecond)
		}
		if took := time.Since(free); took > time.Second {
			t.Errorf("it took %v", took)
		}
		c.Leave("mine")
		time.Sleep(time.Minute)
	})
}

// The first waiter of a process withdraws, or stops polling without a call. Neither delays the
// others.
func TestFirstWaiterWithdraws(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(3)
		a, b, d := open(t, c), open(t, c), open(t, c)
		held, err := a.Mutex("stock").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.joinOnce(t, "dead.1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Mutex("stock").Lock(ctx); err == nil {
			t.Error("granted beside the holder")
		}
		got := make(chan time.Time)
		go func() {
			l, err := d.Mutex("stock").Lock(t.Context())
			if err != nil {
				t.Error(err)
			} else {
				_ = l.Release(t.Context())
			}
			got <- time.Now()
		}()
		time.Sleep(100 * time.Millisecond)
		free := time.Now()
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took := (<-got).Sub(free); took > 3500*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		_, _, _ = a.Close(), b.Close(), d.Close()
		c.Leave("dead")
	})
}
