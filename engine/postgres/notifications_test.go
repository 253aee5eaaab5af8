package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// stream is what a listener gets.
type stream struct {
	bodies  chan string
	resyncs chan struct{}
	close   func()
}

func listen(t *testing.T, s *documents, client string) stream {
	t.Helper()
	st := stream{bodies: make(chan string, 100), resyncs: make(chan struct{}, 100)}
	l, err := s.Listen(t.Context(), cas.Address{Prefix: "p", Client: client}, func(b []byte) { st.bodies <- string(b) }, func() { st.resyncs <- struct{}{} })
	requireNil(t, err)
	st.close = func() { requireNil(t, l.Close()) }
	t.Cleanup(st.close)
	return st
}

func send(t *testing.T, s *documents, client, body string) {
	t.Helper()
	m := cas.Message{To: cas.Address{Prefix: "p", Client: client}, Body: []byte(body)}
	swapOne(t, s, cas.Change{Key: key(body), Value: []byte("v"), Messages: []cas.Message{m}})
}

func require[T comparable](t *testing.T, c <-chan T, within time.Duration, what string, want T) {
	t.Helper()
	select {
	case got := <-c:
		if got != want {
			t.Fatalf("%s: got %v, want %v", what, got, want)
		}
	case <-time.After(within):
		t.Fatalf("not in %v: %s", within, what)
	}
}

// All listeners of an engine share one connection, which ends with the last of them.
func TestListenersShareAConnection(t *testing.T) {
	server := shared.Get(t)
	var net network
	name := newDatabase(t, server)
	pool := net.pool(t, server.DSN(name))
	requireNil(t, Migrate(t.Context(), pool))
	s := newStore(t, pool)
	first := listen(t, s, "first")
	second := listen(t, s, "second")
	for _, who := range []string{"first", "second"} {
		send(t, s, who, "to "+who)
	}
	require(t, first.bodies, 5*time.Second, "a message", "to first")
	require(t, second.bodies, 5*time.Second, "a message", "to second")
	if n := net.listening.Load(); n != 1 {
		t.Errorf("%d connections listen, want 1", n)
	}
	first.close()
	send(t, s, "second", "again")
	require(t, second.bodies, 5*time.Second, "a message", "again")
	second.close()
	redistest.Await(t, 5*time.Second, "no connection listens", func() bool { return net.listening.Load() == 0 })
}

// A connection that is cut is opened again, and what was lost meanwhile is a resync.
func TestListeningConnectionIsCut(t *testing.T) {
	t.Parallel()
	server := shared.Get(t)
	pool := newTable(t, server)
	s := newStore(t, pool)
	st := listen(t, s, "a")
	cut := queryOne[int](t, pool, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND query ~ 'LISTEN' AND pid <> pg_backend_pid()")
	if cut != 1 {
		t.Fatalf("%d connections listen, want 1", cut)
	}
	require(t, st.resyncs, 5*time.Second, "a resync", struct{}{})
	send(t, s, "a", "after it")
	require(t, st.bodies, 5*time.Second, "a message", "after it")
}

// A connection on which nothing arrives any more is found, and opened again.
func TestListeningConnectionIsSilent(t *testing.T) {
	t.Parallel()
	server := shared.Get(t)
	var net network
	pool := net.pool(t, server.DSN(newDatabase(t, server)))
	requireNil(t, Migrate(t.Context(), pool))
	s := newStore(t, pool)
	st := listen(t, s, "a")
	stalls, began := redistest.WatchStalls(t), time.Now()
	net.silent.Store(true)
	redistest.Await(t, 10*time.Second, "the connection is closed", func() bool { return net.listening.Load() == 0 })
	stalls.Within(t, began, pingEvery+pingTimeout+time.Second, "finding that the connection is dead")
	net.silent.Store(false)
	require(t, st.resyncs, 10*time.Second, "a resync", struct{}{})
	send(t, s, "a", "after it")
	require(t, st.bodies, 5*time.Second, "a message", "after it")
}

// Where notifications do not arrive, listeners look themselves.
func TestNotificationsDoNotArrive(t *testing.T) {
	t.Parallel()
	server := shared.Get(t)
	var net network
	net.deaf.Store(true)
	pool := net.pool(t, server.DSN(newDatabase(t, server)))
	requireNil(t, Migrate(t.Context(), pool))
	s := newStore(t, pool)
	st := listen(t, s, "a")
	for range 3 {
		require(t, st.resyncs, probeTimeout+2*resyncEvery, "a resync", struct{}{})
	}
	if n := net.listening.Load(); n != 0 {
		t.Errorf("%d connections listen still", n)
	}
	late := listen(t, s, "b") // at once
	require(t, late.resyncs, 2*resyncEvery, "a resync", struct{}{})
}

// A probe may arrive before its sender knows that it is sent. Then none is overdue, and a silent
// connection is checked as ever.
func TestProbeArrivesBeforeItIsSent(t *testing.T) {
	t.Parallel()
	server := shared.Get(t)
	s := newStore(t, newTable(t, server))
	n := newNotifications(s)
	conn, err := connect(t.Context(), s.connections.config, n.receive)
	requireNil(t, err)
	defer (&connection{pgx: conn}).close()
	start := time.Now()
	l := &listening{notifications: n, conn: conn, channels: map[string]bool{n.own: true}, heard: start, sent: make(chan struct{}, 1)}
	l.probe, n.probed, l.next = "p", "p", start.Add(probeEvery)
	arrived, cancel := context.WithCancel(t.Context())
	cancel()
	requireNil(t, l.step(arrived))
	l.sent <- struct{}{}
	l.heard = start.Add(-2 * pingEvery)
	requireNil(t, l.step(t.Context()))
	if l.heard.Before(start) {
		t.Error("a silent connection was not checked")
	}
}

func TestWithoutListen(t *testing.T) {
	t.Parallel()
	server := shared.Get(t)
	var net network
	pool := net.pool(t, server.DSN(newDatabase(t, server)))
	requireNil(t, Migrate(t.Context(), pool))
	st := listen(t, newStore(t, pool, WithoutListen()), "a")
	other := newStore(t, pool)
	b := listen(t, other, "b")
	for range 2 {
		require(t, st.resyncs, 3*resyncEvery, "a resync", struct{}{})
	}
	send(t, newStore(t, pool, WithoutListen()), "b", "told all the same")
	require(t, b.bodies, 5*time.Second, "a message", "told all the same")
}

// Listen on a server that is not there is an error, at once.
func TestListenWithoutServer(t *testing.T) {
	pool := newPool(t, "postgres://test@127.0.0.1:1/nowhere?sslmode=disable")
	s := newStore(t, pool)
	_, err := s.Listen(t.Context(), cas.Address{Client: "a"}, func([]byte) {}, func() {})
	if err == nil || errors.Is(err, engine.ErrDenied) {
		t.Errorf("got %v, want it unavailable", err)
	}
}

// A message is sent although the document has changed again before its notification.
func TestMessageOfAChangeThatIsPast(t *testing.T) {
	t.Parallel()
	pool := newTable(t, shared.Get(t))
	s := newStore(t, pool)
	st := listen(t, s, "a")
	to := cas.Address{Prefix: "p", Client: "a"}
	var doc cas.Doc
	const changes = 200
	racer := newStore(t, pool)
	for range changes {
		doc = swapOne(t, s, cas.Change{Key: key("k"), Rev: doc.Rev, Value: []byte("v"), Messages: []cas.Message{{To: to, Body: []byte("m")}}})
		doc = swapOne(t, racer, cas.Change{Key: key("k"), Rev: doc.Rev, Value: []byte("v")})
	}
	for range changes {
		require(t, st.bodies, 5*time.Second, "a message", "m")
	}
}

// An engine that is not used has no goroutine and no connection.
func TestNothingIsLeft(t *testing.T) {
	server := shared.Get(t)
	var net network
	pool := net.pool(t, server.DSN(newDatabase(t, server)))
	requireNil(t, Migrate(t.Context(), pool))
	s := newStore(t, pool)
	s.connections.idleTime = 100 * time.Millisecond
	st := listen(t, s, "a")
	send(t, s, "a", "m")
	require(t, st.bodies, 5*time.Second, "a message", "m")
	st.close()
	redistest.Await(t, 5*time.Second, "no connection is idle", func() bool {
		s.connections.mu.Lock()
		defer s.connections.mu.Unlock()
		return s.connections.open == 0 && s.connections.sweeper == nil
	})
	leaktest.Check(t, "pgxpool.(*Pool).backgroundHealthCheck", "sqlservers", "os/exec.", "io.Copy", "testing.(*T).Parallel(")
	if _, err := s.Read(context.Background(), []cas.Read{{Key: key("m")}}); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
