package mysql_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/mysql"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
)

// A failover loses the change that granted a lease, and the replica that is promoted has the document from before. Another client
// then gets the lease, and the first one, which has seen the revision that was lost, does not take it for that of the second.
func TestFailoverLosesTheLatestChange(t *testing.T) {
	t.Parallel()
	db := open(t, newDatabase(t))
	first, second := mysql.New(db), mysql.New(db)
	res := engine.Resource{Prefix: "p", Name: "r"}
	const ttl = 30 * time.Second
	acquire := func(e *mysql.Engine, id string) engine.Held {
		t.Helper()
		a, err := e.Acquire(t.Context(), engine.Request{Resource: res, ID: id, Client: &engine.Client{ID: engine.ClientOf(id)},
			Kind: engine.KindMutex, Capacity: 1, Weight: 1, TTL: ttl})
		if err != nil || a.Status != engine.Granted {
			t.Fatalf("%s: %v, %v", id, a.Status, err)
		}
		return engine.Held{ID: id, Token: a.Token}
	}
	renew := func(e *mysql.Engine, held engine.Held) error {
		return e.Renew(t.Context(), []engine.Renewal{{Resource: res, Held: held, TTL: ttl}})[0]
	}
	exec := func(statements ...string) {
		t.Helper()
		for _, sql := range statements {
			if _, err := db.ExecContext(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := first.Release(t.Context(), engine.Release{Resource: res, Held: acquire(first, "a.1")}); err != nil {
		t.Fatal(err)
	}
	exec("CREATE TABLE replica AS SELECT * FROM holdfast1_document")
	lost := acquire(first, "a.2")
	exec("DELETE FROM holdfast1_document", "INSERT INTO holdfast1_document SELECT * FROM replica")
	granted := acquire(second, "b.1")
	if err, gone := errors.AsType[*engine.NotHeldError](renew(first, lost)); !gone {
		t.Errorf("renewal of the lease that was lost: %v, want it not held", err)
	}
	if err := renew(second, granted); err != nil {
		t.Errorf("renewal of the lease that was granted after the failover: %v", err)
	}
}

// After a failover to an asynchronous replica, which is promoted and gets the address of the primary, the leases that it had received
// hold. One that it had not received is granted again, with a higher token, and its holder notices.
func TestFailoverToReplica(t *testing.T) {
	t.Parallel()
	number := func(id string) sqlservers.Option { return sqlservers.WithSetting("server-id", id) }
	primary := sqlservers.StartMySQL(t, sqlservers.WithSetting("log-bin", "log"), number("1"))
	replica := sqlservers.StartMySQL(t, number("2"))
	_, port, err := net.SplitHostPort(primary.Addr())
	if err != nil {
		t.Fatal(err)
	}
	there := open(t, replica.DSN("mysql"))
	onReplica := func(statements ...string) {
		t.Helper()
		for _, sql := range statements {
			if _, err := there.ExecContext(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
	}
	onReplica("SET GLOBAL read_only = 1", "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = "+port+", MASTER_USER = 'root', MASTER_CONNECT_RETRY = 1", "START SLAVE")
	dsn := makeDatabase(t, primary)
	var address atomic.Pointer[string]
	moveTo := func(s *sqlservers.Server) {
		addr := s.Addr()
		address.Store(&addr)
	}
	moveTo(primary)
	driver.RegisterDialContext("moving", func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", *address.Load())
	})
	moving := strings.Replace(dsn, "tcp(", "moving(", 1)
	holder, other := newClient(t, open(t, moving)), newClient(t, open(t, moving))
	lock := func(c *holdfast.Client, name string, ttl time.Duration) *holdfast.Lease {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		lease, err := c.Mutex(name, holdfast.WithTTL(ttl)).Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}

	const ttl = 6 * time.Second
	received := lock(holder, "received", 30*time.Second)
	_, database, _ := strings.Cut(dsn, ")/")
	redistest.Await(t, 30*time.Second, "the replica has the lease", func() bool {
		var n int
		err := there.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+database+".holdfast1_document WHERE LOCATE('received', k) > 0").Scan(&n)
		return err == nil && n == 1
	})
	onReplica("STOP SLAVE")
	lost := lock(holder, "lost", ttl)
	primary.Kill()
	onReplica("RESET SLAVE ALL", "SET GLOBAL read_only = 0")
	moveTo(replica)

	again := lock(other, "lost", ttl)
	if again.Token() <= lost.Token() {
		redistest.Broken(t, "token %d after %d", again.Token(), lost.Token())
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
		t.Errorf("the lease that the replica had: %v, want it held", err)
	}
	for _, lease := range []*holdfast.Lease{received, again} {
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
