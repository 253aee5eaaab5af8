package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
)

// After a failover to an asynchronous standby, the leases that it had received hold. One that it had
// not received is granted again, with a higher token, and its holder notices.
func TestFailoverToStandby(t *testing.T) {
	t.Parallel()
	primary := sqlservers.StartPostgreSQL(t)
	name := newDatabase(t, primary)
	direct := newPool(t, primary.DSN(name))
	requireNil(t, Migrate(t.Context(), direct))
	standby := primary.StartReplica(t)
	onStandby := newPool(t, standby.DSN(name))
	dsn := fmt.Sprintf("postgres://test@%s,%s/%s?sslmode=disable&target_session_attrs=read-write", primary.Addr(), standby.Addr(), name)
	holder, other := newClient(t, newPool(t, dsn)), newClient(t, newPool(t, dsn))

	const ttl = 6 * time.Second
	received := lock(t, holder, "received", holdfast.WithTTL(30*time.Second))
	redistest.Await(t, 20*time.Second, "the standby has the lease", func() bool {
		return queryOne[int](t, onStandby, "SELECT count(*) FROM "+tableName+" WHERE name = 'received'") == 1
	})
	requireStandby(t, newStore(t, onStandby))

	exec(t, onStandby, "ALTER SYSTEM SET primary_conninfo = ''")
	exec(t, onStandby, "SELECT pg_reload_conf()")
	redistest.Await(t, 20*time.Second, "the standby receives nothing more", func() bool {
		return queryOne[int](t, direct, "SELECT count(*) FROM pg_stat_replication") == 0
	})
	lost := lock(t, holder, "lost", holdfast.WithTTL(ttl))
	primary.Kill()
	if !queryOne[bool](t, onStandby, "SELECT pg_promote()") {
		t.Fatal("not promoted")
	}

	again := lock(t, other, "lost")
	if again.Token() <= lost.Token() {
		t.Errorf("token %d after %d", again.Token(), lost.Token())
	}
	select {
	case <-lost.Done():
	case <-time.After(2 * ttl):
		t.Error("the holder of the lease that was lost does not notice")
	}
	if !errors.Is(lost.Err(), holdfast.ErrLost) {
		t.Errorf("the lease that was lost: %v", lost.Err())
	}
	var held *holdfast.HeldError
	if _, err := other.Mutex("received").TryLock(t.Context()); !errors.As(err, &held) {
		t.Errorf("the lease that the standby had: %v, want it held", err)
	}
	requireNil(t, received.Release(t.Context()))
	requireNil(t, again.Release(t.Context()))
}

// With WithRelaxed, a server that is killed has lost its last commits: the lease is granted again, with
// a higher token, and its first holder notices.
func TestRelaxedServerIsKilled(t *testing.T) {
	t.Parallel()
	server := sqlservers.StartPostgreSQL(t, sqlservers.WithFsync(), sqlservers.WithSetting("wal_writer_delay", "10s"), sqlservers.WithSetting("autovacuum", "off"))
	pool := newTable(t, server)
	holder, other := newClient(t, pool, WithRelaxed()), newClient(t, pool, WithRelaxed())
	requireNil(t, lock(t, other, "warm").Release(t.Context()))
	const ttl = 6 * time.Second
	var lost, again *holdfast.Lease
	for tries := 0; again == nil; tries++ { // the server may have written the commit after all
		if tries == 5 {
			t.Fatal("the server has lost no commit")
		}
		lost = lock(t, holder, "lost", holdfast.WithTTL(ttl))
		server.Kill()
		server.Restart()
		ctx, cancel := context.WithTimeout(t.Context(), ttl/3)
		again, _ = other.Mutex("lost").Lock(ctx)
		cancel()
		if again == nil {
			requireNil(t, lost.Release(t.Context()))
		}
	}
	if again.Token() <= lost.Token() {
		t.Errorf("token %d after %d", again.Token(), lost.Token())
	}
	select {
	case <-lost.Done():
	case <-time.After(2 * ttl):
		t.Error("the holder of the lease that was lost does not notice")
	}
	requireNil(t, again.Release(t.Context()))
}

// A host that accepts connections and does not respond is not in the way of the next one.
func TestFirstHostHangs(t *testing.T) {
	t.Parallel()
	server := shared.Get(t)
	name := newDatabase(t, server)
	requireNil(t, Migrate(t.Context(), newPool(t, server.DSN(name))))
	hangs, err := net.Listen("tcp", "127.0.0.1:0")
	requireNil(t, err)
	defer hangs.Close()
	s := newStore(t, newPool(t, fmt.Sprintf("postgres://test@%s,%s/%s?sslmode=disable", hangs.Addr(), server.Addr(), name)))
	ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
	defer cancel()
	_, err = s.Now(ctx)
	requireNil(t, err)
}

// requireStandby checks that a standby is not available: for reads neither, since what it has may be old.
func requireStandby(t *testing.T, s *documents) {
	t.Helper()
	if _, err := s.Read(t.Context(), []cas.Read{{Key: key("a")}}); !errors.Is(err, errStandby) {
		t.Errorf("a read on a standby: %v", err)
	}
	_, err := s.Swap(t.Context(), []cas.Change{{Key: key("a"), Value: []byte("v"), Keep: time.Hour}})
	if code(err) != "25006" || errors.Is(err, engine.ErrDenied) {
		t.Errorf("a change on a standby: %v", err)
	}
	if _, err := s.Now(t.Context()); !errors.Is(err, errStandby) {
		t.Errorf("the time of a standby: %v", err)
	}
	err = nil
	for _, err = range s.Keys(t.Context(), cas.Resources, "") {
	}
	if !errors.Is(err, errStandby) {
		t.Errorf("a list on a standby: %v", err)
	}
}

// A mark that was confirmed, on a relaxed engine, and a crash of the server.
func TestARelaxedEngineKeepsMarks(t *testing.T) {
	server := sqlservers.StartPostgreSQL(t, sqlservers.WithFsync(), sqlservers.WithSetting("wal_writer_delay", "10s"), sqlservers.WithSetting("autovacuum", "off"))
	pool := newTable(t, server)
	a, b := newEngine(t, pool, WithRelaxed()), newEngine(t, pool, WithRelaxed())
	kept := 0
	for i := range 5 {
		r := engine.Request{Resource: engine.Resource{Prefix: "p", Name: fmt.Sprint("once", i)}, ID: "c.1", Client: &engine.Client{ID: "c"},
			Kind: engine.KindJob, Capacity: 1, Weight: 1, TTL: time.Minute}
		got, err := a.Acquire(t.Context(), r)
		if err != nil || got.Status != engine.Granted {
			t.Fatal(got, err)
		}
		if err := a.Release(t.Context(), engine.Release{Resource: r.Resource, Held: engine.Held{ID: r.ID, Token: got.Token}, Mark: time.Hour}); err != nil {
			t.Fatal(err)
		}
		server.Kill()
		server.Restart()
		r.ID = "d.1"
		r.Client = &engine.Client{ID: "d"}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		again, err := b.Acquire(ctx, r)
		cancel()
		t.Logf("after the crash: %v, %v", again.Status, err)
		if err == nil && again.Status != engine.Marked {
			t.Errorf("the confirmed mark is gone: %v", again.Status)
			return
		}
		if err == nil {
			kept++
		}
	}
	if kept == 0 {
		t.Error("after no crash there was an answer")
	}
}
