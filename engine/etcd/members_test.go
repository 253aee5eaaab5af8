package etcd_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/etcd"
	"github.com/holdfast-go/holdfast/internal/etcdservers"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// waitTimeout bounds what a test waits for; it fails then.
const waitTimeout = 30 * time.Second

// The only member is killed under a holder and a waiter, and starts again with its data.
func TestRestart(t *testing.T) {
	t.Parallel()
	server := etcdservers.Start(t, etcdservers.Config{})
	holder, waiter := newClient(t, connect(t, []string{server.Addr()})), newClient(t, connect(t, []string{server.Addr()}))
	ctx := within(t, waitTimeout)
	first, err := holder.Mutex("stock:42", holdfast.WithTTL(20*time.Second)).Lock(ctx)
	must(t, err)
	type result struct {
		lease *holdfast.Lease
		err   error
	}
	waited := make(chan result, 1)
	go func() {
		lease, err := waiter.Mutex("stock:42").Lock(ctx)
		waited <- result{lease, err}
	}()
	awaitWaiters(t, holder, 1)
	server.Kill()
	select {
	case r := <-waited:
		t.Fatalf("the wait ended while the server was down: %v", r.err)
	case <-time.After(2 * time.Second):
	}
	server.Restart()
	if err := first.Err(); err != nil {
		t.Fatalf("the lease was lost: %v", err)
	}
	must(t, first.Release(ctx))
	second := <-waited
	must(t, second.err)
	if second.lease.Token() <= first.Token() {
		t.Errorf("token %d after %d", second.lease.Token(), first.Token())
	}
	must(t, second.lease.Release(ctx))
}

// awaitWaiters waits until so many wait for the resource of the tests.
func awaitWaiters(t testing.TB, c *holdfast.Client, n int) {
	t.Helper()
	ctx := within(t, waitTimeout)
	for {
		s, err := c.Snapshot(ctx, "stock:42")
		if err == nil && len(s.Waiters) == n {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("there are not %d waiters: %+v, %v", n, s, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Whatever one of three members suffers, sellers go on meanwhile and afterwards, none is admitted
// beside another, and no lease is lost.
func TestOneOfThree(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		harm, repair func(s *etcdservers.Server)
	}{
		{"LeaderKilled", (*etcdservers.Server).Kill, (*etcdservers.Server).Restart},
		{"LeaderStopped", (*etcdservers.Server).Pause, (*etcdservers.Server).Resume},
	} {
		t.Run(c.name, func(t *testing.T) {
			members := etcdservers.StartCluster(t, 3, etcdservers.Config{})
			clients := []*holdfast.Client{newClient(t, connect(t, members.Addrs())), newClient(t, connect(t, members.Addrs()))}
			held, err := clients[0].Mutex("held all the time").Lock(within(t, waitTimeout))
			must(t, err)
			ctx, stop := context.WithCancel(within(t, waitTimeout))
			var s shop
			var sellers sync.WaitGroup
			for _, client := range clients {
				sellers.Go(func() {
					for ctx.Err() == nil {
						if err := s.sell(t, ctx, client.Mutex("stock:42")); err != nil && ctx.Err() == nil && !repeated(err) {
							t.Errorf("selling: %v", err)
						}
					}
				})
			}
			more := func(when string) {
				from := s.sold.Load()
				redistest.Await(t, waitTimeout, "selling "+when, func() bool { return s.sold.Load() >= from+5 })
			}
			more("before")
			leader := members.Leader(t)
			c.harm(leader)
			more("without the leader")
			c.repair(leader)
			more("afterwards")
			stop()
			sellers.Wait()
			must(t, held.Release(within(t, waitTimeout)))
		})
	}
}

// A majority is gone: the holder ends its work before its lease could end, and a call says
// why it fails.
func TestMajorityGone(t *testing.T) {
	t.Parallel()
	members := etcdservers.StartCluster(t, 3, etcdservers.Config{})
	c := newClient(t, connect(t, members.Addrs()), etcd.WithTimeout(time.Second))
	sent := time.Now()
	lease, err := c.Mutex("stock:42", holdfast.WithTTL(2*time.Second)).Lock(within(t, waitTimeout))
	must(t, err)
	leader := members.Leader(t)
	for _, m := range members {
		if m != leader {
			m.Kill()
		}
	}
	<-lease.Done()
	if after := time.Since(sent); after > 4*time.Second {
		t.Errorf("the lease of 2 s was lost only %v after it was requested", after)
	}
	e := etcd.New(connect(t, members.Addrs()), etcd.WithTimeout(time.Second))
	_, err = e.Acquire(within(t, waitTimeout), request(t, "b.1", time.Second))
	wantError(t, "without a majority", err, "", engine.ErrUnavailable)
	for _, m := range members {
		if m != leader {
			m.Restart()
		}
	}
	again, err := c.Mutex("stock:42").Lock(within(t, waitTimeout))
	must(t, err)
	if again.Token() <= lease.Token() {
		t.Errorf("token %d after %d", again.Token(), lease.Token())
	}
}
