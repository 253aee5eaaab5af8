package zookeeper

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/zkservers"
)

// newClient returns a client with a connection of its own, for the length of a test.
func newClient(t testing.TB, session time.Duration, addrs ...string) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(New(connect(t, session, addrs...)), holdfast.WithPrefix(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // it may be unable to release
	return c
}

// workshop is work that one at a time may do: it counts, and reports two at once and tokens that do
// not rise.
type workshop struct {
	t      testing.TB
	inside atomic.Int32
	done   atomic.Int32
	token  atomic.Uint64
}

// work works until ctx ends or the turns are over. A lease that is lost ends a turn.
func (w *workshop) work(ctx context.Context, m *holdfast.Mutex, turns int) {
	for range turns {
		lease, err := m.Lock(ctx)
		if err != nil {
			if ctx.Err() == nil {
				w.t.Errorf("Lock: %v", err)
			}
			return
		}
		w.turn(lease)
		if err := lease.Release(context.Background()); err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrUnavailable) {
			w.t.Errorf("Release: %v", err)
		}
	}
}

func (w *workshop) turn(lease *holdfast.Lease) {
	if w.inside.Add(1) != 1 && lease.Err() == nil {
		w.t.Error("two are inside")
	}
	if last := w.token.Swap(lease.Token()); last >= lease.Token() && lease.Err() == nil {
		w.t.Errorf("token %d after %d", lease.Token(), last)
	}
	if lease.Err() == nil {
		w.done.Add(1)
	}
	w.inside.Add(-1)
}

// start starts 4 workers for each client, and returns what waits for them.
func (w *workshop) start(ctx context.Context, turns int, clients ...*holdfast.Client) (wait func()) {
	var all sync.WaitGroup
	for _, c := range clients {
		for range 4 {
			all.Go(func() { w.work(ctx, c.Mutex("work", holdfast.WithTTL(2*time.Second)), turns) })
		}
	}
	return all.Wait
}

func TestMutexOfTwoClients(t *testing.T) {
	t.Parallel()
	addr := sharedServer(t).Addr()
	w := &workshop{t: t}
	w.start(t.Context(), 25, newClient(t, 10*time.Second, addr), newClient(t, 10*time.Second, addr))()
	if n := w.done.Load(); n != 8*25 {
		t.Errorf("%d turns, want %d", n, 8*25)
	}
}

// hold acquires a lease for a test.
func hold(t testing.TB, c *holdfast.Client, name string, opts ...holdfast.LockOption) *holdfast.Lease {
	t.Helper()
	lease, err := c.Mutex(name, opts...).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

// A process that dies with its lease frees the resource within the TTL, and not before.
func TestHolderDies(t *testing.T) {
	t.Parallel()
	addr := sharedServer(t).Addr()
	proxy := redistest.NewProxy(t, addr)
	dead := newClient(t, 500*time.Millisecond, proxy.Addr())
	next := newClient(t, 10*time.Second, addr)
	const ttl = time.Second
	lease := hold(t, dead, "a", holdfast.WithTTL(ttl))
	granted := make(chan error, 1)
	go func() {
		l, err := next.Mutex("a", holdfast.WithTTL(ttl)).Lock(t.Context())
		if err == nil && lease.Err() == nil {
			err = errors.New("granted before the former holder was told")
		}
		if err == nil {
			err = l.Release(t.Context())
		}
		granted <- err
	}()
	proxy.Refuse()
	proxy.Cut()
	select {
	case err := <-granted:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(ttl + 10*time.Second):
		t.Error("not granted")
	}
	proxy.Accept()
}

// The reply to a commit is lost: the lease is acquired once.
func TestReplyLost(t *testing.T) {
	t.Parallel()
	addr := sharedServer(t).Addr()
	proxy := redistest.NewProxy(t, addr)
	c := newClient(t, 3*time.Second, proxy.Addr())
	if err := hold(t, c, "warm").Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	point := proxy.LoseReply("/a")
	lease := hold(t, c, "a")
	point.RequireHit(t)
	if s, err := c.Snapshot(t.Context(), "a"); err != nil || len(s.Holders) != 1 || len(s.Waiters) != 0 || s.Holders[0].Token != lease.Token() {
		t.Errorf("%+v, %v; want the holder of %d alone", s, err, lease.Token())
	}
	point = proxy.LoseReply("/a")
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	point.RequireHit(t)
	if s, err := c.Snapshot(t.Context(), "a"); err != nil || len(s.Holders)+len(s.Waiters) != 0 {
		t.Errorf("%+v, %v; want nothing left", s, err)
	}
}

// A lease outlives the session of its holder, and a waiter its own.
func TestLeaseOutlivesTheSession(t *testing.T) {
	t.Parallel()
	addr := sharedServer(t).Addr()
	proxy := redistest.NewProxy(t, addr)
	conn := connect(t, 500*time.Millisecond, proxy.Addr())
	cut, err := holdfast.New(New(conn), holdfast.WithPrefix(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	defer cut.Close()
	other := newClient(t, 10*time.Second, addr)
	kept := hold(t, cut, "kept", holdfast.WithTTL(30*time.Second))
	wanted := hold(t, other, "wanted")
	got := make(chan error, 1)
	go func() {
		_, err := cut.Mutex("wanted").Lock(t.Context())
		got <- err
	}()
	redistest.Await(t, 10*time.Second, "a waiter", func() bool {
		s, err := other.Snapshot(t.Context(), "wanted")
		return err == nil && len(s.Waiters) == 1
	})
	session := conn.SessionID()
	proxy.Refuse()
	proxy.Cut()
	watcher := newStore(connect(t, 10*time.Second, addr))
	inbox := above(watcher.inboxPath(cas.Address{Prefix: t.Name()}, 0))
	redistest.Await(t, 20*time.Second, "the end of the session", func() bool {
		names, err := watcher.children(t.Context(), inbox)
		return err == nil && len(names) == 0
	})
	proxy.Accept()
	redistest.Await(t, 20*time.Second, "another session", func() bool { id := conn.SessionID(); return id != 0 && id != session })
	if err := wanted.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
	if err := kept.Err(); err != nil {
		t.Errorf("the lease was lost: %v", err)
	}
	if s, err := other.Snapshot(t.Context(), "kept"); err != nil || len(s.Holders) != 1 || s.Holders[0].Token != kept.Token() {
		t.Errorf("%+v, %v", s, err)
	}
	if err := kept.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestServerFaults runs on one server, which is paused and killed.
func TestServerFaults(t *testing.T) {
	t.Parallel()
	server := zkservers.Start(t)
	for name, f := range map[string]func(*testing.T, *zkservers.Server){
		"CallsOfAHungServer": callsOfAHungServer, "Killed": serverKilled, "Paused": serverPaused,
	} {
		t.Run(name, func(t *testing.T) { f(t, server) })
	}
}

// Leases, waiters and documents survive a server that is killed and restarted on its data.
func serverKilled(t *testing.T, server *zkservers.Server) {
	a, b := newClient(t, 3*time.Second, server.Addr()), newClient(t, 3*time.Second, server.Addr())
	kept := hold(t, a, "kept", holdfast.WithTTL(30*time.Second))
	ctx, stop := context.WithCancel(t.Context())
	w := &workshop{t: t}
	wait := w.start(ctx, 1_000_000, a, b)
	redistest.Await(t, 20*time.Second, "work", func() bool { return w.done.Load() > 20 })
	server.Restart()
	before := w.done.Load()
	redistest.Await(t, 30*time.Second, "work after the restart", func() bool { return w.done.Load() > before+20 })
	stop()
	wait()
	if err := kept.Err(); err != nil {
		t.Errorf("a lease of 30 s was lost: %v", err)
	}
	if s, err := b.Snapshot(t.Context(), "kept"); err != nil || len(s.Holders) != 1 || s.Holders[0].Token != kept.Token() {
		t.Errorf("%+v, %v", s, err)
	}
	if err := kept.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// The holder of a lease is told before it is over when the server does not answer.
func serverPaused(t *testing.T, server *zkservers.Server) {
	a, b := newClient(t, 3*time.Second, server.Addr()), newClient(t, 3*time.Second, server.Addr())
	const ttl = time.Second
	lease := hold(t, a, "a", holdfast.WithTTL(ttl))
	ctx, stop := context.WithCancel(t.Context())
	w := &workshop{t: t}
	wait := w.start(ctx, 1_000_000, a, b)
	redistest.Await(t, 20*time.Second, "work", func() bool { return w.done.Load() > 10 })
	server.Pause()
	paused := time.Now()
	select {
	case <-lease.Done():
	case <-time.After(ttl + time.Second):
		t.Error("the holder was not told")
	}
	if told := time.Since(paused); told > ttl {
		t.Errorf("the holder was told %v after the pause began, with a TTL of %v", told, ttl)
	}
	server.Resume()
	before := w.done.Load()
	redistest.Await(t, 30*time.Second, "work after the pause", func() bool { return w.done.Load() > before+10 })
	next := hold(t, b, "a", holdfast.WithTTL(ttl))
	if next.Token() <= lease.Token() {
		t.Errorf("token %d after %d", next.Token(), lease.Token())
	}
	stop()
	wait()
}

// TestEnsemble runs on three servers.
func TestEnsemble(t *testing.T) {
	t.Parallel()
	ensemble := zkservers.StartEnsemble(t, 3)
	t.Run("ReadIsNotBehind", func(t *testing.T) { readIsNotBehind(t, ensemble) })
	t.Run("LeaderChanges", func(t *testing.T) { leaderChanges(t, ensemble) })
	t.Run("WitnessOutlivesLeaders", func(t *testing.T) { witnessOutlivesLeaders(t, ensemble) })
}

// The work goes on when the leader is killed, and when the next one is paused: nothing that was
// granted is forgotten.
func leaderChanges(t *testing.T, ensemble *zkservers.Ensemble) {
	const session = 2 * time.Second
	a, b := newClient(t, session, ensemble.Addrs()...), newClient(t, session, ensemble.Addrs()...)
	kept := hold(t, a, "kept", holdfast.WithTTL(time.Minute))
	ctx, stop := context.WithCancel(t.Context())
	w := &workshop{t: t}
	wait := w.start(ctx, 1_000_000, a, b)
	goesOn := func(when string) {
		before := w.done.Load()
		redistest.Await(t, 40*time.Second, "work "+when, func() bool { return w.done.Load() > before+20 })
	}
	goesOn("at first")
	killed := ensemble.Leader(t)
	killed.Kill()
	goesOn("without the leader")
	killed.Restart()
	paused := ensemble.Leader(t)
	paused.Pause()
	goesOn("while the leader is paused")
	paused.Resume()
	goesOn("with all servers")
	stop()
	wait()
	if err := kept.Err(); err != nil {
		t.Errorf("a lease of a minute was lost: %v", err)
	}
	var s holdfast.Snapshot
	redistest.Await(t, 10*time.Second, "a connection", func() (connected bool) {
		var err error
		s, err = b.Snapshot(t.Context(), "kept")
		return err == nil
	})
	if len(s.Holders) != 1 || s.Holders[0].Token != kept.Token() {
		t.Errorf("%+v", s)
	}
}
