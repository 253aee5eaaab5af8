package postgres

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
	"github.com/holdfast-go/holdfast/internal/storetest"
)

func lock(t *testing.T, c *holdfast.Client, name string, opts ...holdfast.LockOption) *holdfast.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	lease, err := c.Mutex(name, opts...).Lock(ctx)
	requireNil(t, err)
	return lease
}

// lockLater waits for a lease, and returns where it arrives once the waiter is in the queue.
func lockLater(t *testing.T, c *holdfast.Client, name string) <-chan *holdfast.Lease {
	t.Helper()
	got := make(chan *holdfast.Lease, 1)
	go func() {
		lease, err := c.Mutex(name).Lock(t.Context())
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	redistest.Await(t, 10*time.Second, "the waiter is queued", func() bool {
		s, err := c.Snapshot(t.Context(), name)
		return err == nil && len(s.Waiters) == 1
	})
	return got
}

func TestCounter(t *testing.T) {
	pool := newTable(t, shared.Get(t))
	storetest.Count(t, []*holdfast.Client{newClient(t, pool), newClient(t, pool)}, 4, 25, nil)
}

// A holder that dies frees the resource when its TTL is over, not before.
func TestHolderDies(t *testing.T) {
	t.Parallel()
	pool := newTable(t, shared.Get(t))
	began := time.Now()
	const ttl = time.Second
	dead := lock(t, newClient(t, pool), "a", holdfast.WithTTL(ttl), holdfast.WithoutRenewal())
	next := lock(t, newClient(t, pool), "a")
	if took := time.Since(began); took < ttl-100*time.Millisecond {
		t.Errorf("granted after %v, the TTL is %v", took, ttl)
	}
	if dead.Err() == nil || next.Token() <= dead.Token() {
		t.Errorf("the lease that ended: %v, token %d; then token %d", dead.Err(), dead.Token(), next.Token())
	}
}

// A server that is killed and started again has every lease and every waiter.
func TestServerIsKilled(t *testing.T) {
	t.Parallel()
	server := sqlservers.StartPostgreSQL(t, sqlservers.WithFsync())
	pool := newTable(t, server)
	holder, waiter := newClient(t, pool), newClient(t, pool)
	lease := lock(t, holder, "a", holdfast.WithTTL(30*time.Second))
	got := lockLater(t, waiter, "a")
	server.Kill()
	select {
	case <-time.After(time.Second): // the waiter polls meanwhile
	case <-lease.Done():
		t.Fatalf("lost while the server was down: %v", lease.Err())
	}
	server.Restart()
	var held *holdfast.HeldError
	if _, err := newClient(t, pool).Mutex("a").TryLock(t.Context()); !errors.As(err, &held) {
		t.Errorf("TryLock after the restart: %v, want the holder", err)
	}
	requireNil(t, lease.Release(t.Context()))
	requireNil(t, (<-got).Release(t.Context()))
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	server := shared.Get(t)
	name := newDatabase(t, server)
	requireNil(t, Migrate(t.Context(), newPool(t, server.DSN(name))))
	storetest.Processes(t, func(t testing.TB) *storetest.Store { return storetest.New(t, openEngine, server.DSN(name)) })
}

func TestHolderIsCutOff(t *testing.T) {
	t.Parallel()
	server := shared.Get(t)
	name := newDatabase(t, server)
	requireNil(t, Migrate(t.Context(), newPool(t, server.DSN(name))))
	through := func(addr string) string { return server.DSNAt(addr, name) }
	storetest.CutOff(t, storetest.New(t, openEngine, server.DSN(name)), server.Addr(), through)
}

func TestCopyOfARunningServer(t *testing.T) {
	t.Parallel()
	server := sqlservers.StartPostgreSQL(t, sqlservers.WithFsync())
	name := newDatabase(t, server)
	requireNil(t, Migrate(t.Context(), newPool(t, server.DSN(name))))
	storetest.Copy(t, storetest.New(t, openEngine, server.DSN(name)), func() string { return server.StartCopy(t).DSN(name) })
}

// The table cannot grow for a time.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	const limit = 16<<10 + 1 // KiB: a segment of the log fits, and the last page of a table fits in part
	server := sqlservers.StartPostgreSQL(t, sqlservers.WithFileLimit(limit), sqlservers.WithSetting("autovacuum", "off"))
	name := newDatabase(t, server)
	pool := newPool(t, server.DSN(name))
	requireNil(t, Migrate(t.Context(), pool))
	fill := func() {
		from := 0
		for _, rows := range []int{5000, 100, 1} {
			var err error
			for ; err == nil; from += rows {
				_, err = pool.Exec(t.Context(), "INSERT INTO "+tableName+" SELECT 'r', 'filler', n::text::bytea, n, repeat('x', 100)::bytea, now() + interval '1 h' "+
					"FROM generate_series($1::int + 1, $1 + $2) n", from, rows)
			}
			if code(err) != "53100" {
				t.Fatal(err)
			}
		}
	}
	storetest.Full(t, storetest.New(t, openEngine, server.DSN(name)), fill, func() {
		exec(t, pool, "DELETE FROM "+tableName+" WHERE prefix = 'filler'")
		exec(t, pool, "VACUUM "+tableName)
	}, "make room")
}

// A server that hangs for some seconds ends no lease, and waiters get theirs afterwards.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	server := sqlservers.StartPostgreSQL(t)
	pool := newTable(t, server)
	holder, waiter := newClient(t, pool), newClient(t, pool)
	lease := lock(t, holder, "a", holdfast.WithTTL(15*time.Second))
	got := lockLater(t, waiter, "a")
	server.Pause()
	<-time.After(3 * time.Second)
	server.Resume()
	if lease.Err() != nil {
		t.Errorf("lost after 3 s: %v", lease.Err())
	}
	requireNil(t, lease.Release(t.Context()))
	requireNil(t, (<-got).Release(t.Context()))
}

// A connection that is cut after the commit, before its reply: the outcome is found out.
func TestReplyOfCommitIsLost(t *testing.T) {
	t.Parallel()
	server := shared.Get(t)
	name := newDatabase(t, server)
	requireNil(t, Migrate(t.Context(), newPool(t, server.DSN(name))))
	proxy := redistest.NewProxy(t, server.Addr())
	c := newClient(t, newPool(t, server.DSNAt(proxy.Addr(), name)))
	direct := newClient(t, newPool(t, server.DSN(name)))
	warm := lock(t, c, "warm")
	requireNil(t, warm.Release(t.Context()))

	point := proxy.LoseReply("stock:acquire")
	lease := lock(t, c, "stock:acquire")
	point.RequireHit(t)
	if s, err := direct.Snapshot(t.Context(), "stock:acquire"); err != nil || len(s.Holders) != 1 || s.Holders[0].Token != lease.Token() {
		t.Errorf("after the lost reply: %+v, %v; the lease has token %d", s, err, lease.Token())
	}
	point = proxy.LoseReply("stock:acquire")
	requireNil(t, lease.Release(t.Context()))
	point.RequireHit(t)
	next, err := direct.Mutex("stock:acquire").TryLock(t.Context())
	requireNil(t, err)
	requireNil(t, next.Release(t.Context()))
}

// Whoever uses all connections of the caller's pool is not in the way of the locks.
func TestPoolIsExhausted(t *testing.T) {
	t.Parallel()
	server := shared.Get(t)
	name := newDatabase(t, server)
	pool := newPool(t, server.DSN(name), func(c *pgxpool.Config) { c.MaxConns = 2 })
	requireNil(t, Migrate(t.Context(), pool))
	c, other := newClient(t, pool), newClient(t, pool)
	const ttl = time.Second
	lease := lock(t, c, "a", holdfast.WithTTL(ttl))
	got := lockLater(t, other, "a")
	for range 2 {
		conn, err := pool.Acquire(t.Context())
		requireNil(t, err)
		defer conn.Release()
	}
	select {
	case <-time.After(3 * ttl):
	case <-lease.Done():
		t.Fatalf("not renewed while the pool was exhausted: %v", lease.Err())
	}
	stalls, began := redistest.WatchStalls(t), time.Now()
	requireNil(t, lease.Release(t.Context()))
	requireNil(t, (<-got).Release(t.Context()))
	stalls.Within(t, began, 500*time.Millisecond, "the hand-off")
}

// Permits are never more than there are, however many want them.
func TestNoOversell(t *testing.T) {
	t.Parallel()
	pool := newTable(t, shared.Get(t))
	var all sync.WaitGroup
	const capacity = 2
	inside := make(chan struct{}, capacity)
	for range 2 {
		c := newClient(t, pool, WithRelaxed())
		for range 4 {
			all.Go(func() {
				for range 10 {
					err := c.Semaphore("s", capacity).Do(t.Context(), 1, func(context.Context) error {
						select {
						case inside <- struct{}{}:
							<-inside
						default:
							t.Error("more are inside than there are permits")
						}
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
}

func TestFaults(t *testing.T) {
	t.Parallel()
	server := shared.Get(t)
	name := newDatabase(t, server)
	requireNil(t, Migrate(t.Context(), newPool(t, server.DSN(name))))
	storetest.Faults(t, func(t testing.TB) *storetest.Store { return storetest.New(t, openEngine, server.DSN(name)) })
}

func TestServerHung(t *testing.T) {
	t.Parallel()
	server := sqlservers.StartPostgreSQL(t)
	name := newDatabase(t, server)
	requireNil(t, Migrate(t.Context(), newPool(t, server.DSN(name))))
	storetest.Hung(t, storetest.New(t, openEngine, server.DSN(name)), server.Pause, server.Resume)
}

// An event that is appended while the table is locked, as by CREATE INDEX, is in the history, or the call says that it is not.
func TestHistoryOfALockedTable(t *testing.T) {
	pool := newTable(t, shared.Get(t))
	e := newEngine(t, pool)
	if err := e.AppendHistory(t.Context(), "p", 1000, [][]byte{[]byte("zero")}); err != nil {
		t.Fatal(err)
	}
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE holdfast1_doc IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	appended := e.AppendHistory(t.Context(), "p", 1000, [][]byte{[]byte("one")})
	t.Logf("AppendHistory: %v after %v", appended, time.Since(began))
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	records, err := e.History(t.Context(), "p", "", time.Time{}, 10)
	if appended == nil && len(records) != 2 {
		t.Errorf("AppendHistory returned nil, and the history has %d events, %v", len(records), err)
	}
}
