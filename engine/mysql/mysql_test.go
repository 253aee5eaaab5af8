package mysql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	driver "github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/mysql"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
	"github.com/holdfast-go/holdfast/internal/storetest"
)

// count is storetest.Count with clients that have engines of their own. It returns the highest number of
// connections in use that it saw.
func count(t *testing.T, db *sql.DB, clients, each, turns int) (most int) {
	t.Helper()
	var all []*holdfast.Client
	for range clients {
		all = append(all, newClient(t, db))
	}
	storetest.Count(t, all, each, turns, func() { most = max(most, db.Stats().InUse) })
	return most
}

func newClient(t testing.TB, db *sql.DB, opts ...mysql.Option) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(mysql.New(db, opts...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func requireLock(t *testing.T, c *holdfast.Client, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	lease, err := c.Mutex(name).Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(ctx); err != nil {
		t.Error(err)
	}
}

func TestCounterInTwoClients(t *testing.T) {
	t.Parallel()
	count(t, open(t, newDatabase(t)), 2, 4, 25)
}

// No setting of the sessions has an effect.
func TestSessionsOfAnyKind(t *testing.T) {
	t.Parallel()
	dsn := newDatabase(t)
	isolation := "transaction_isolation"
	if strings.Contains(version(t, dsn), "MariaDB") {
		isolation = "tx_isolation" // it has the other name since 11.1
	}
	for _, parameters := range []string{
		"interpolateParams=true&parseTime=true&loc=Asia%2FTokyo&time_zone=%27%2B09%3A00%27",
		"clientFoundRows=true&multiStatements=true&time_zone=%27-11%3A00%27",
		isolation + "=%27SERIALIZABLE%27&sql_mode=%27ANSI%2CNO_BACKSLASH_ESCAPES%2CTRADITIONAL%27",
		"charset=latin1&collation=latin1_swedish_ci&" + isolation + "=%27REPEATABLE-READ%27",
	} {
		db := open(t, dsn+"?"+parameters)
		count(t, db, 2, 2, 5)
		at, err := mysql.New(db).Now(t.Context())
		if off := time.Since(at).Abs(); err != nil || off > 5*time.Second {
			t.Errorf("%s: the clock is off by %v, %v", parameters, off, err)
		}
	}
}

// version returns the server's, which in MariaDB has its name.
func version(t testing.TB, dsn string) (v string) {
	t.Helper()
	if err := open(t, dsn).QueryRow("SELECT version()").Scan(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// One connection is enough, and six are the most: the caller may hold the others.
func TestPoolHeldByTheCaller(t *testing.T) {
	t.Parallel()
	db := open(t, newDatabase(t))
	if most := count(t, db, 1, 16, 20); most > 6 {
		t.Errorf("the engine used %d connections", most)
	}
	db.SetMaxOpenConns(4)
	for range 3 {
		c, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	count(t, db, 2, 4, 5)
}

// leases acquires some, and returns their renewals.
func leases(t *testing.T, e *mysql.Engine, n int) (batch []engine.Renewal) {
	t.Helper()
	for i := range n {
		r := engine.Request{Resource: engine.Resource{Prefix: "p", Name: fmt.Sprintf("<%d>", i)}, ID: "c.1", Client: &engine.Client{ID: "c"},
			Kind: engine.KindMutex, Capacity: 1, Weight: 1, TTL: time.Minute}
		a, err := e.Acquire(t.Context(), r)
		if err != nil || a.Status != engine.Granted {
			t.Fatal(a.Status, err)
		}
		batch = append(batch, engine.Renewal{Resource: r.Resource, Held: engine.Held{ID: r.ID, Token: a.Token}, TTL: time.Hour})
	}
	return batch
}

// lockRows locks the rows of documents in a foreign transaction, until the test or the transaction ends.
func lockRows(t *testing.T, db *sql.DB, names ...string) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	for _, name := range names {
		var k []byte
		if err := db.QueryRowContext(t.Context(), "SELECT k FROM holdfast1_document WHERE LOCATE(?, k) > 0", name).Scan(&k); err != nil {
			t.Fatal(err)
		}
		if err := tx.QueryRowContext(t.Context(), "SELECT k FROM holdfast1_document WHERE k = ? FOR UPDATE", k).Scan(&k); err != nil {
			t.Fatal(err)
		}
	}
	return tx
}

// Rows that a foreign transaction has locked hold up the renewals of their leases, and not those of other leases.
func TestLockedRowsHoldUpNoOther(t *testing.T) {
	t.Parallel()
	db := open(t, newDatabase(t))
	e := mysql.New(db)
	const all, each, ttl = 300, 30, 8 * time.Second
	batch := leases(t, e, all)
	var names []string
	for i := 0; i < all; i += each {
		names = append(names, batch[i].Resource.Name)
	}
	lockRows(t, db, names...)
	ctx, cancel := context.WithTimeout(t.Context(), ttl)
	defer cancel()
	for i, err := range e.Renew(ctx, batch) {
		if (err != nil) != (i%each == 0) {
			t.Errorf("renewal %d: %v", i, err)
		}
	}
}

// Changes of rows that are locked are not made, and the others of the call are. The session waits for locks afterwards
// as before.
func TestLockedRowsOfACall(t *testing.T) {
	t.Parallel()
	for name, open1 := range map[string]func(*sql.DB) cas.DocumentStore{"statements are limited": mysql.NewStore, "sessions are limited": mysql.NewStoreOfSessions} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := newDatabase(t)
			db := open(t, dsn+"?innodb_lock_wait_timeout=37")
			db.SetMaxOpenConns(1)
			s := open1(db)
			var changes []cas.Change
			for i := range 20 {
				changes = append(changes, cas.Change{Key: cas.Key{Space: cas.Resources, Prefix: "p", Name: fmt.Sprintf("<%d>", i)}, Value: []byte("v"), Keep: time.Hour})
			}
			outs, err := s.Swap(t.Context(), changes)
			if err != nil {
				t.Fatal(err)
			}
			for i, o := range outs {
				changes[i].Rev = o.Doc.Rev
			}
			changes = append(changes, cas.Change{Key: cas.Key{Space: cas.Resources, Prefix: "p", Name: "new"}, Value: []byte("v"), Keep: time.Hour})
			locked := map[int]bool{3: true, 4: true, 11: true}
			tx := lockRows(t, open(t, dsn), "<3>", "<4>", "<11>")
			for _, want := range []map[int]bool{locked, nil} {
				began := time.Now()
				outs, err := s.Swap(t.Context(), changes)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("%d rows were locked: %v", len(want), time.Since(began))
				for i, o := range outs {
					if o.Locked != want[i] || o.Swapped == (want[i] || want == nil && !locked[i]) {
						t.Errorf("%d are locked, change %d: %+v", len(want), i, o)
					}
				}
				var wait int
				if err := db.QueryRowContext(t.Context(), "SELECT @@innodb_lock_wait_timeout").Scan(&wait); err != nil || wait != 37 {
					t.Errorf("the session waits %d s for a lock, %v", wait, err)
				}
				_ = tx.Rollback()
			}
		})
	}
}

// Changes that come at the same time share a connection, for which they wait once if the application uses the pool.
func TestChangesShareAConnection(t *testing.T) {
	t.Parallel()
	db := open(t, newDatabase(t))
	e := mysql.New(db)
	const renewals, users = 512, 4
	batch := leases(t, e, renewals)
	db.SetMaxOpenConns(1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var turns atomic.Int64
	var others sync.WaitGroup
	defer others.Wait()
	defer stop()
	for range users {
		others.Go(func() {
			for ctx.Err() == nil {
				if _, err := db.ExecContext(ctx, "DO SLEEP(0.01)"); err == nil {
					turns.Add(1)
				}
			}
		})
	}
	redistest.Await(t, 20*time.Second, "the application uses the pool", func() bool { return turns.Load() > users })
	before, began := turns.Load(), time.Now()
	for i, err := range e.Renew(t.Context(), batch) {
		if err != nil {
			t.Errorf("renewal %d: %v", i, err)
		}
	}
	n := turns.Load() - before
	t.Logf("%d renewals in %v, while the application had the connection %d times", renewals, time.Since(began), n)
	if n > renewals/4 {
		t.Errorf("the application had the connection %d times during %d renewals", n, renewals)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	server := shared.Get(t)
	dsn := newDatabase(t)
	admin := open(t, dsn)
	for _, q := range []string{"CREATE DATABASE IF NOT EXISTS holdfast_empty", "CREATE USER weak@127.0.0.1 IDENTIFIED BY 'secret'",
		"GRANT SELECT ON *.* TO weak@127.0.0.1"} {
		if _, err := admin.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, dsn, advice string }{
		{"no tables", server.DSN("holdfast_empty"), "mysql.Migrate"},
		{"no right to write", strings.Replace(dsn, "root@", "weak:secret@", 1), "the user needs SELECT, INSERT"},
		{"wrong password", strings.Replace(dsn, "root@", "weak:wrong@", 1), "refuses the user"},
		{"no such database", server.DSN("holdfast_missing"), "database that exists"},
		{"unknown variable", dsn + "?no_such_variable=1", "sets a variable"},
		{"value of a variable", dsn + "?sql_mode=%27NONSENSE%27", "sets a variable"},
		{"no autocommit", dsn + "?autocommit=0", "autocommit"},
	} {
		if _, err := newClient(t, open(t, c.dsn)).Mutex("m").Lock(t.Context()); !errors.Is(err, engine.ErrDenied) || !strings.Contains(fmt.Sprint(err), c.advice) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := holdfast.New(mysql.New(nil)); err == nil {
		t.Error("New of a nil database: no error")
	}
}

// A foreign transaction has the row of a resource: calls return when their ctx ends, and succeed
// when it is over.
func TestRowLockedByAnother(t *testing.T) {
	t.Parallel()
	db := open(t, newDatabase(t))
	c := newClient(t, db)
	requireLock(t, c, "m")
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "SELECT k FROM holdfast1_document FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := c.Mutex("m").Lock(ctx); !errors.Is(err, holdfast.ErrNotAcquired) || time.Since(began) > 3*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	requireLock(t, c, "m")
}

// A change that was not made because a foreign transaction had the row is made again.
func TestLockWaitTimeoutIsRepeated(t *testing.T) {
	t.Parallel()
	db := open(t, newDatabase(t))
	e := mysql.New(db)
	batch := leases(t, e, 1)
	tx := lockRows(t, db, batch[0].Resource.Name)
	began := time.Now()
	time.AfterFunc(2500*time.Millisecond, func() { _ = tx.Rollback() })
	if err := e.Renew(t.Context(), batch)[0]; err != nil || time.Since(began) < 2*time.Second {
		t.Errorf("after %v: %v", time.Since(began), err)
	}
}

// The server is killed and comes back: a waiter gets the lease afterwards, and nothing that was
// answered is lost.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	server := sqlservers.StartMySQL(t, sqlservers.WithFsync())
	db := open(t, makeDatabase(t, server))
	holder, waiter := newClient(t, db), newClient(t, db)
	lease, err := holder.Mutex("m", holdfast.WithTTL(time.Minute)).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan uint64, 1)
	go func() {
		l, err := waiter.Mutex("m").Lock(t.Context())
		if err != nil {
			t.Error(err)
			next <- 0
			return
		}
		next <- l.Token()
		_ = l.Release(t.Context())
	}()
	awaitWaiters(t, holder, 1)
	server.Kill()
	server.Restart()
	if s, err := holder.Snapshot(t.Context(), "m"); err != nil || len(s.Holders) != 1 || s.Holders[0].Token != lease.Token() {
		t.Errorf("after the restart: %+v, %v", s, err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if token := <-next; token <= lease.Token() {
		t.Errorf("token %d after %d", token, lease.Token())
	}
}

// awaitWaiters waits until some parties wait for the resource m.
func awaitWaiters(t *testing.T, c *holdfast.Client, n int) {
	t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for range 500 {
		if s, err := c.Snapshot(t.Context(), "m"); err == nil && len(s.Waiters) >= n {
			return
		}
		<-look.C
	}
	t.Fatal("nobody waits")
}

// The server hangs for some seconds: a holder whose window ends meanwhile finds out, and work goes on.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	server := sqlservers.StartMySQL(t)
	c := newClient(t, open(t, makeDatabase(t, server)))
	lease, err := c.Mutex("m", holdfast.WithTTL(time.Second)).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server.Pause()
	select {
	case <-lease.Done():
	case <-time.After(5 * time.Second):
		t.Error("the holder was not notified")
	}
	server.Resume()
	requireLock(t, c, "m")
}

// The replies of changes are lost: each lock is held once and released.
func TestRepliesLost(t *testing.T) {
	t.Parallel()
	server := shared.Get(t)
	proxy := redistest.NewProxy(t, server.Addr())
	dsn := strings.Replace(newDatabase(t), server.Addr(), proxy.Addr(), 1)
	c := newClient(t, open(t, dsn))
	for i := range 4 {
		name := fmt.Sprint("m", i)
		match := "INSERT INTO holdfast1_document"
		if i%2 == 1 {
			match = "UPDATE holdfast1_document"
		}
		point := proxy.LoseReply(match)
		requireLock(t, c, name)
		select {
		case <-point.Hit():
		case <-time.After(5 * time.Second):
			t.Errorf("no %s was sent", match)
		}
		if s, err := c.Snapshot(t.Context(), name); err != nil || len(s.Holders)+len(s.Waiters) > 0 {
			t.Errorf("%s is left with %+v, %v", name, s, err)
		}
	}
}

// A server that is read-only is unavailable for a time; it is not a matter of rights.
func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	server := sqlservers.StartMySQL(t)
	dsn := makeDatabase(t, server)
	admin := open(t, dsn)
	for _, q := range []string{"CREATE USER app@127.0.0.1", "GRANT SELECT, INSERT, UPDATE, DELETE ON *.* TO app@127.0.0.1"} {
		if _, err := admin.ExecContext(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	c := newClient(t, open(t, strings.Replace(dsn, "root@", "app@", 1)), mysql.WithTimeout(time.Second))
	l := c.Latch("l") // one that is over: what is read of it says so
	if _, err := l.TrySet(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := l.CountDown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.ExecContext(t.Context(), "SET GLOBAL read_only = 1"); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func(context.Context) error{
		"Wait": l.Wait, "CountDown": l.CountDown,
		"Snapshot": func(ctx context.Context) error { _, err := c.Snapshot(ctx, "m"); return err },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if err := read(ctx); !errors.Is(err, holdfast.ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
	if _, err := c.Mutex("m").TryLock(t.Context()); !errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, engine.ErrDenied) || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("TryLock: %v", err)
	}
	if _, err := admin.ExecContext(t.Context(), "SET GLOBAL read_only = 0"); err != nil {
		t.Fatal(err)
	}
	requireLock(t, c, "m")
}

// Documents and messages whose time is over are deleted, and no others.
func TestOldRowsGo(t *testing.T) {
	t.Parallel()
	db := open(t, newDatabase(t))
	const written = storetest.OldRows
	number := storetest.WriteOldRows(t, mysql.NewStore(db), db)
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for range 100 { // what is deleted last is deleted in the background
		if number("SELECT count(*) FROM holdfast1_document") < written*9/10 && number("SELECT count(*) FROM holdfast1_wake") < written*3/4 {
			break
		}
		<-look.C
	}
	if n := number("SELECT count(*) FROM holdfast1_document"); n > written*9/10 {
		t.Errorf("%d documents are left", n)
	}
	if n := number("SELECT count(*) FROM holdfast1_document WHERE k LIKE '%00' OR k = X'7200017030'"); n != written/100 {
		t.Errorf("%d of %d documents that are to be kept are left", n, written/100)
	}
	if n := number("SELECT count(*) FROM holdfast1_wake"); n > written*3/4 || n == 0 {
		t.Errorf("%d of %d messages are left", n, written)
	}
}

// The error of the driver stays in the chain.
func TestErrorsKeepTheirCause(t *testing.T) {
	t.Parallel()
	_, err := mysql.New(open(t, shared.Get(t).DSN("holdfast_nowhere"))).Now(t.Context())
	if cause, ok := errors.AsType[*driver.MySQLError](err); !ok || cause.Number != 1049 {
		t.Errorf("%v", err)
	}
}

// A change that loses a deadlock is made again: two stores insert the same document while a foreign transaction has deleted it, and
// are granted the shared lock of the row together when that ends.
func TestDeadlockIsRepeated(t *testing.T) {
	t.Parallel()
	dsn := makeDatabase(t, sqlservers.StartMySQL(t))
	db := open(t, dsn)
	deadlocks := func() (n int) {
		if err := db.QueryRowContext(t.Context(), "SELECT count FROM information_schema.innodb_metrics WHERE name = 'lock_deadlocks'").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	s, k := mysql.NewStore(db), cas.Key{Space: cas.Resources, Prefix: "holdfast", Name: "m"}
	insert := cas.Change{Key: k, Value: []byte("v"), Keep: time.Hour}
	for try := 0; deadlocks() == 0; try++ {
		if try == 20 {
			t.Fatal("no deadlock in 20 tries")
		}
		if _, err := db.ExecContext(t.Context(), "DELETE FROM holdfast1_document"); err != nil {
			t.Fatal(err)
		}
		if outs, err := s.Swap(t.Context(), []cas.Change{insert}); err != nil || !outs[0].Swapped {
			t.Fatalf("%+v, %v", outs, err)
		}
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.ExecContext(t.Context(), "DELETE FROM holdfast1_document"); err != nil {
			t.Fatal(err)
		}
		swapped := make(chan bool, 2)
		for range 2 {
			other := mysql.NewStore(open(t, dsn))
			go func() {
				outs, err := other.Swap(t.Context(), []cas.Change{insert})
				if err != nil {
					t.Error(err)
				}
				swapped <- err == nil && outs[0].Swapped
			}()
		}
		redistest.Await(t, 20*time.Second, "both wait", func() bool {
			<-time.After(150 * time.Millisecond) // the view stays as it is while it is read more often than each 100 ms
			var n int
			err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'").Scan(&n)
			return err == nil && n == 2
		})
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if one, two := <-swapped, <-swapped; one == two {
			redistest.Broken(t, "of two that insert one document, both have done so or none: %t", one)
		}
	}
}
