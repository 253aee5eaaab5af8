package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Updates do not touch the index, so that the table stays small under changes. No other test runs meanwhile: a transaction that
// is open, also in another database, makes the server keep old versions of rows.
func TestUpdatesAreHOT(t *testing.T) {
	pool := newTable(t, shared.Get(t))
	s := newStore(t, pool)
	const changes = 1000
	value := []byte(strings.Repeat("x", 300))
	doc := cas.Doc{}
	for range changes {
		doc = swapOne(t, s, cas.Change{Key: key("a"), Rev: doc.Rev, Value: value})
	}
	s.connections.closeIdle() // a server process reports its counts when it ends
	var hot int64
	redistest.Await(t, 20*time.Second, "the server has counted the updates", func() bool {
		var updates int64
		requireNil(t, pool.QueryRow(t.Context(), "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = $1", tableName).Scan(&updates, &hot))
		return updates == changes-1
	})
	if hot < changes*95/100 {
		t.Errorf("%d of %d updates are HOT", hot, changes-1)
	}
	if size := queryOne[int64](t, pool, "SELECT pg_table_size($1)", tableName); size > 256<<10 {
		t.Errorf("one document of %d bytes takes %d bytes", len(value), size)
	}
}

// holdRow locks the row of a document in a transaction of its own.
func holdRow(t *testing.T, pool *pgxpool.Pool, names ...string) pgx.Tx {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	requireNil(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	for _, n := range names {
		_, err = tx.Exec(t.Context(), "SELECT FROM "+tableName+" WHERE name = $1 FOR UPDATE", []byte(n))
		requireNil(t, err)
	}
	return tx
}

// The time of a change that had to wait for the row is after the wait.
func TestClockAfterRowLock(t *testing.T) {
	t.Parallel()
	pool := newTable(t, shared.Get(t))
	s := newStore(t, pool)
	doc := swapOne(t, s, cas.Change{Key: key("a"), Value: []byte("v")})
	tx := holdRow(t, pool, "a")
	type reply struct {
		outs []cas.Outcome
		err  error
	}
	replied := make(chan reply, 1)
	go func() {
		for {
			outs, err := s.Swap(t.Context(), []cas.Change{{Key: key("a"), Rev: doc.Rev, Value: []byte("w"), Keep: time.Hour}})
			if err != nil || !outs[0].Locked {
				replied <- reply{outs, err}
				return
			}
		}
	}()
	select {
	case r := <-replied:
		t.Fatalf("did not wait for the row: %+v", r)
	case <-time.After(2 * time.Second):
	}
	unlocked := queryOne[time.Time](t, pool, "SELECT clock_timestamp()")
	requireNil(t, tx.Rollback(t.Context()))
	r := <-replied
	requireNil(t, r.err)
	if at := r.outs[0].Doc.At; !r.outs[0].Swapped || at.Before(unlocked) {
		t.Errorf("%+v; the row was free at %v", r.outs[0], unlocked)
	}
}

// Rows that foreign transactions have locked hold up the renewals of their leases, and not those of other leases.
func TestLockedRowsHoldUpNoOther(t *testing.T) {
	t.Parallel()
	pool := newTable(t, shared.Get(t))
	e := newEngine(t, pool)
	const leases, locked, ttl = 300, 10, 6 * time.Second
	var batch []engine.Renewal
	for i := range leases {
		r := engine.Request{Resource: engine.Resource{Prefix: "p", Name: fmt.Sprint(i)}, ID: "c.1", Client: &engine.Client{ID: "c"},
			Kind: engine.KindMutex, Capacity: 1, Weight: 1, TTL: time.Minute}
		a, err := e.Acquire(t.Context(), r)
		if err != nil || a.Status != engine.Granted {
			t.Fatal(a.Status, err)
		}
		batch = append(batch, engine.Renewal{Resource: r.Resource, Held: engine.Held{ID: r.ID, Token: a.Token}, TTL: time.Hour})
	}
	var names []string
	for i := range locked {
		names = append(names, fmt.Sprint(i*leases/locked))
	}
	holdRow(t, pool, names...)
	ctx, cancel := context.WithTimeout(t.Context(), ttl)
	defer cancel()
	for i, err := range e.Renew(ctx, batch) {
		if (err != nil) != (i%(leases/locked) == 0) {
			t.Errorf("renewal %d: %v", i, err)
		}
	}
}

// Changes of rows that are locked are not made, and the others of the call are.
func TestLockedRowsOfACall(t *testing.T) {
	t.Parallel()
	pool := newTable(t, shared.Get(t))
	s := newStore(t, pool)
	const rows = 64
	locked := map[int]bool{3: true, 4: true, 40: true}
	changes := make([]cas.Change, rows)
	for i := range changes {
		name := fmt.Sprint(i)
		d := swapOne(t, s, cas.Change{Key: key(name), Value: []byte("v")})
		changes[i] = cas.Change{Key: key(name), Rev: d.Rev, Value: []byte("w"), Keep: time.Hour}
	}
	holdRow(t, pool, "3", "4", "40")
	// Nobody can see a row that is being inserted.
	inserting, err := pool.Begin(t.Context())
	requireNil(t, err)
	t.Cleanup(func() { _ = inserting.Rollback(context.Background()) })
	_, err = inserting.Exec(t.Context(), "INSERT INTO "+tableName+" (space, prefix, name, rev, value, keep_until) SELECT space, prefix, 'new', 1, '', keep_until FROM "+
		tableName+" WHERE name = '0'")
	requireNil(t, err)
	locked[rows] = true
	changes = append(changes, cas.Change{Key: key("new"), Value: []byte("w"), Keep: time.Hour}, cas.Change{Key: key("another"), Value: []byte("w"), Keep: time.Hour})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // a change that waits for a row would wait for ever
	defer cancel()
	outs, err := s.Swap(ctx, changes)
	requireNil(t, err)
	for i, o := range outs {
		if o.Locked != locked[i] || o.Swapped == locked[i] {
			t.Errorf("change %d: %+v", i, o)
		}
	}
}

// waiting counts the server processes that wait for a lock in this database.
func waiting(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	return queryOne[int](t, pool, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'")
}

// A call ends with its ctx, and so does what the server does for it.
func TestCallIsBoundedAtTheServer(t *testing.T) {
	pool := newTable(t, shared.Get(t))
	s := newStore(t, pool)
	tx, err := pool.Begin(t.Context())
	requireNil(t, err)
	defer tx.Rollback(context.Background())
	_, err = tx.Exec(t.Context(), "LOCK TABLE "+tableName)
	requireNil(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
	defer cancel()
	stalls, began := redistest.WatchStalls(t), time.Now()
	_, err = s.Swap(ctx, []cas.Change{{Key: key("a"), Value: []byte("v"), Keep: time.Hour}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a change while the table is locked: %v", err)
	}
	stalls.Within(t, began, 1500*time.Millisecond, "the call")
	redistest.Await(t, 5*time.Second, "nothing waits for the lock", func() bool { return waiting(t, pool) == 0 })
	requireNil(t, tx.Rollback(t.Context()))
	if docs, err := s.Read(t.Context(), []cas.Read{{Key: key("a")}}); err != nil || docs[0].Rev != 0 {
		t.Errorf("a change that was cancelled: %+v, %v", docs, err)
	}
}

// A call that finds no idle connection gets the first one that is there: it does not wait for a new
// one if another call has put one back. The new one is kept for one that waits meanwhile, and for when those in use do not suffice.
func TestACallTakesTheFirstConnection(t *testing.T) {
	t.Parallel()
	server := shared.Get(t)
	dsn := server.DSN(newDatabase(t, server))
	requireNil(t, Migrate(t.Context(), newPool(t, dsn)))
	dials, proceed := make(chan struct{}, 10), make(chan struct{}, 10)
	s := newStore(t, newPool(t, dsn, func(c *pgxpool.Config) {
		c.BeforeConnect = func(context.Context, *pgx.ConnConfig) error {
			dials <- struct{}{}
			<-proceed
			return nil
		}
	}))
	take := func(ctx context.Context) <-chan *connection {
		got := make(chan *connection, 1)
		go func() {
			c, err := s.connections.take(ctx)
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			got <- c
		}()
		return got
	}
	idle := func(n int) {
		t.Helper()
		redistest.Await(t, 5*time.Second, fmt.Sprintf("%d are idle", n), func() bool {
			s.connections.mu.Lock()
			defer s.connections.mu.Unlock()
			return len(s.connections.idle) == n && s.connections.open == n
		})
	}
	proceed <- struct{}{}
	first := <-take(t.Context())
	<-dials
	second := take(t.Context())
	<-dials
	s.connections.put(first)
	if c := <-second; c != first || !c.reused {
		t.Fatal("the call waited for a new connection")
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := take(ctx)
	cancel()
	if c := <-gone; c != nil {
		t.Error("a call whose ctx has ended got a connection")
	}
	s.connections.put(first)
	proceed <- struct{}{}
	idle(2)
	if c := <-take(t.Context()); c != first {
		t.Error("a call got the new connection, and the one in use was idle")
	}
	s.connections.put(first)
	s.connections.closeIdle()
	idle(0)
}

// The server looks whether the client's host is there: a part of a transaction that has arrived when
// that is gone locks its rows no longer than that takes. The caller's own settings stay if they are shorter.
func TestServerNoticesLostHosts(t *testing.T) {
	t.Parallel()
	server := shared.Get(t)
	name := newDatabase(t, server)
	requireNil(t, Migrate(t.Context(), newPool(t, server.DSN(name))))
	for parameters, want := range map[string]string{"": "5 2 3", "&tcp_keepalives_idle=3&tcp_keepalives_count=9": "3 2 3"} {
		s := newStore(t, newPool(t, server.DSN(name)+parameters))
		c, err := s.connections.take(t.Context())
		requireNil(t, err)
		var got string
		err = c.pgx.QueryRow(t.Context(), "SELECT concat_ws(' ', current_setting('tcp_keepalives_idle'), current_setting('tcp_keepalives_interval'), "+
			"current_setting('tcp_keepalives_count'))").Scan(&got)
		s.connections.put(c)
		if err != nil || got != want {
			t.Errorf("%q: keepalives are %q, want %q; %v", parameters, got, want, err)
		}
	}
}

// A change that the server ends because of a deadlock, here of a trigger that an operator has added, is made again.
func TestDeadlockIsRetried(t *testing.T) {
	t.Parallel()
	pool := newTable(t, shared.Get(t))
	exec(t, pool, fmt.Sprintf("ALTER DATABASE %q SET deadlock_timeout = '400ms'", queryOne[string](t, pool, "SELECT current_database()"))) // sooner than a lock timeout
	s := newStore(t, pool)
	a := swapOne(t, s, cas.Change{Key: key("a"), Value: []byte("v")})
	swapOne(t, s, cas.Change{Key: key("b"), Value: []byte("v")})
	exec(t, pool, `CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM FROM `+tableName+` WHERE name = 'b' FOR UPDATE;
		RETURN NEW; END $$`)
	exec(t, pool, "CREATE TRIGGER hold BEFORE UPDATE ON "+tableName+" FOR EACH ROW EXECUTE FUNCTION hold()")
	tx := holdRow(t, pool, "b")
	_, err := tx.Exec(t.Context(), "SET LOCAL deadlock_timeout = '1min'") // the other one ends
	requireNil(t, err)
	swapped := make(chan error, 1)
	go func() {
		var outs []cas.Outcome
		var err error
		for err == nil && (outs == nil || outs[0].Locked) { // on a slow machine the cycle comes after the lock timeout
			outs, err = s.Swap(t.Context(), []cas.Change{{Key: key("a"), Rev: a.Rev, Value: []byte("w"), Keep: time.Hour}})
		}
		if err == nil && !outs[0].Swapped {
			err = fmt.Errorf("not swapped: %+v", outs)
		}
		swapped <- err
	}()
	redistest.Await(t, 5*time.Second, "the change waits", func() bool { return waiting(t, pool) == 1 })
	_, err = tx.Exec(t.Context(), "SELECT FROM "+tableName+" WHERE name = 'a' FOR UPDATE") // a cycle
	requireNil(t, err)
	requireNil(t, tx.Commit(t.Context()))
	requireNil(t, <-swapped)
	if n := queryOne[int](t, pool, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n > 1 {
		t.Errorf("%d deadlocks", n)
	}
}

// Documents whose time is over are deleted bit by bit, by the changes of others.
func TestOldDocumentsAreDeleted(t *testing.T) {
	t.Parallel()
	pool := newTable(t, shared.Get(t))
	s := newStore(t, pool)
	const old, kept = 3 * tidyPortion, 50
	exec(t, pool, "INSERT INTO "+tableName+" SELECT 'r', 'p', n::text::bytea, n, '', now() - interval '1 s' FROM generate_series(1, $1) n", old)
	exec(t, pool, "INSERT INTO "+tableName+" SELECT 'r', 'q', n::text::bytea, n, '', now() + interval '1 h' FROM generate_series(1, $1) n", kept)
	count := func() int { return queryOne[int](t, pool, "SELECT count(*) FROM "+tableName) }
	doc := cas.Doc{}
	for range tidyEvery {
		doc = swapOne(t, s, cas.Change{Key: key("a"), Rev: doc.Rev, Value: []byte("v")})
	}
	redistest.Await(t, 5*time.Second, "one portion is deleted", func() bool { return count() == old+kept+1-tidyPortion })
	for range 6 * tidyEvery {
		doc = swapOne(t, s, cas.Change{Key: key("a"), Rev: doc.Rev, Value: []byte("v")})
	}
	redistest.Await(t, 5*time.Second, "all are deleted", func() bool {
		doc = swapOne(t, s, cas.Change{Key: key("a"), Rev: doc.Rev, Value: []byte("v")})
		return count() == kept+1
	})
}

// What waiting cannot mend is denied, and says what to do.
func TestDenied(t *testing.T) {
	server := shared.Get(t)
	name := newDatabase(t, server)
	admin := newPool(t, server.DSN(name))
	exec(t, admin, "DROP ROLE IF EXISTS stranger")
	exec(t, admin, "CREATE ROLE stranger LOGIN")
	exec(t, admin, "DROP ROLE IF EXISTS locked_out")
	exec(t, admin, "CREATE ROLE locked_out NOLOGIN")
	as := func(role, database string) string { return strings.Replace(server.DSN(database), "test@", role+"@", 1) }
	check := func(what, dsn, hint string) {
		t.Helper()
		e := newEngine(t, newPool(t, dsn))
		_, err := e.Snapshot(t.Context(), engine.Resource{Prefix: "p", Name: "a"})
		if !errors.Is(err, engine.ErrDenied) || !strings.Contains(err.Error(), hint) {
			t.Errorf("%s: got %v, want it denied with %q", what, err, hint)
		}
	}
	check("no table", server.DSN(name), "run Migrate")
	requireNil(t, Migrate(t.Context(), admin))
	check("no rights", as("stranger", name), "needs USAGE")
	check("no login", as("locked_out", name), "pg_hba.conf")
	check("no database", server.DSN("nowhere"), "create the database")
	exec(t, admin, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+tableName+" TO stranger")
	c := newClient(t, newPool(t, as("stranger", name)))
	lease, err := c.Mutex("a").Lock(t.Context())
	requireNil(t, err)
	requireNil(t, lease.Release(t.Context()))
}

// A server that is read only is not available: it may be a standby after a failover.
func TestReadOnlyIsUnavailable(t *testing.T) {
	server := shared.Get(t)
	name := newDatabase(t, server)
	requireNil(t, Migrate(t.Context(), newPool(t, server.DSN(name))))
	s := newStore(t, newPool(t, server.DSN(name)+"&default_transaction_read_only=on"))
	_, err := s.Swap(t.Context(), []cas.Change{{Key: key("a"), Value: []byte("v"), Keep: time.Hour}})
	if code(err) != "25006" || errors.Is(err, engine.ErrDenied) {
		t.Errorf("got %v, want it unavailable because of a read-only transaction", err)
	}
}

func TestNilPool(t *testing.T) {
	if _, err := holdfast.New(New(nil)); !errors.Is(err, errNoPool) {
		t.Errorf("got %v, want %v", err, errNoPool)
	}
}

// Migrate may be called again, and by several at once.
func TestMigrateAtOnce(t *testing.T) {
	server := shared.Get(t)
	pool := newPool(t, server.DSN(newDatabase(t, server)))
	errs := make(chan error, 4)
	for range cap(errs) {
		go func() { errs <- Migrate(t.Context(), pool) }()
	}
	for range cap(errs) {
		requireNil(t, <-errs)
	}
	exec(t, pool, Schema()) // as it is printed
}

// A change that the server aborts with a serialization failure, as one before it or its standbys may, is made again, once.
func TestSerializationFailureIsRetried(t *testing.T) {
	t.Parallel()
	pool := newTable(t, shared.Get(t))
	s := newStore(t, pool)
	a := swapOne(t, s, cas.Change{Key: key("a"), Value: []byte("v")})
	const failures = 3
	exec(t, pool, "CREATE SEQUENCE tries") // which an abort does not set back
	exec(t, pool, `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		IF nextval('tries') <= 3 THEN RAISE 'could not serialize access' USING ERRCODE = '40001'; END IF;
		RETURN NEW; END $$`)
	exec(t, pool, "CREATE TRIGGER fail BEFORE UPDATE ON "+tableName+" FOR EACH ROW EXECUTE FUNCTION fail()")
	outs, err := s.Swap(t.Context(), []cas.Change{{Key: key("a"), Rev: a.Rev, Value: []byte("w"), Keep: time.Hour}})
	requireNil(t, err)
	if !outs[0].Swapped {
		t.Errorf("not swapped: %+v", outs)
	}
	if n := queryOne[int](t, pool, "SELECT last_value FROM tries"); n != failures+1 {
		t.Errorf("%d tries, want %d", n, failures+1)
	}
}
