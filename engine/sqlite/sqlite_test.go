package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/sqlite"
	"github.com/holdfast-go/holdfast/internal/storetest"
)

// count is storetest.Count with clients that have engines of their own and are closed at its end. It returns the
// highest number of connections in use that it saw.
func count(t *testing.T, db *sql.DB, clients, each, turns int) (most int) {
	t.Helper()
	var all []*holdfast.Client
	for range clients {
		c, err := holdfast.New(sqlite.New(db))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all = append(all, c)
	}
	storetest.Count(t, all, each, turns, func() { most = max(most, db.Stats().InUse) })
	return most
}

func TestCounterInTwoClients(t *testing.T) {
	t.Parallel()
	count(t, open(t, newFile(t), ""), 2, 4, 50)
}

// One connection is enough, however many clients share the pool.
func TestPoolOfOneConnection(t *testing.T) {
	t.Parallel()
	db := open(t, newFile(t), "")
	db.SetMaxOpenConns(1)
	count(t, db, 2, 4, 20)
}

// An engine uses two connections at most, and works with the only one that its caller has left.
func TestPoolHeldByTheCaller(t *testing.T) {
	t.Parallel()
	db := open(t, newFile(t), "")
	if most := count(t, db, 1, 8, 50); most > 2 {
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
	count(t, db, 1, 8, 20)
}

// The engine leaves the connections as they were opened.
func TestConnectionsStayAsTheyWere(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	for _, parameters := range []string{
		"", "_pragma=busy_timeout(7000)&_pragma=synchronous(0)", "_pragma=synchronous(3)&_txlock=exclusive", "_pragma=busy_timeout(10)&_txlock=deferred",
	} {
		db := open(t, path, parameters)
		pragmas := func(c *sql.Conn) string {
			var busy, synchronous string
			if err := c.QueryRowContext(t.Context(), "PRAGMA busy_timeout").Scan(&busy); err != nil {
				t.Fatal(err)
			}
			if err := c.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&synchronous); err != nil {
				t.Fatal(err)
			}
			return busy + " " + synchronous
		}
		conn := func(db *sql.DB) *sql.Conn {
			c, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		fresh := conn(open(t, path, parameters))
		want := pragmas(fresh)
		fresh.Close()
		count(t, db, 2, 2, 5)
		var held []*sql.Conn
		for range db.Stats().Idle {
			c := conn(db)
			held = append(held, c)
			if got := pragmas(c); got != want {
				t.Errorf("%q: a connection has %s, want %s", parameters, got, want)
			}
		}
		if len(held) == 0 {
			t.Errorf("%q: no connection was used", parameters)
		}
		for _, c := range held {
			c.Close()
		}
	}
}

// Without the WAL mode readers and writers exclude each other, and the engine still works.
func TestRollbackJournal(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	db := open(t, path, "")
	if _, err := db.Exec("PRAGMA journal_mode = DELETE"); err != nil {
		t.Fatal(err)
	}
	count(t, db, 2, 4, 10)
}

// Another process writes for long: calls wait for as long as their ctx, and go on afterwards.
func TestForeignWriter(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	foreign, err := open(t, path, "").Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	for _, parameters := range []string{"", "_pragma=busy_timeout(60000)"} {
		c, err := holdfast.New(sqlite.New(open(t, path, parameters)))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := foreign.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		began := time.Now()
		if _, err := c.Mutex("m").Lock(ctx); !errors.Is(err, holdfast.ErrNotAcquired) || time.Since(began) > 2*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		locked := make(chan error, 1)
		go func() {
			lease, err := c.Mutex("m").Lock(t.Context())
			if err == nil {
				err = lease.Release(t.Context())
			}
			locked <- err
		}()
		<-time.After(100 * time.Millisecond)
		if _, err := foreign.ExecContext(t.Context(), "COMMIT"); err != nil {
			t.Fatal(err)
		}
		if err := <-locked; err != nil {
			t.Error(err)
		}
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	garbage := filepath.Join(folder(t), "garbage")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("no database ", 100)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, parameters, advice string }{
		{"no tables", filepath.Join(folder(t), "new.db"), "", "sqlite.Migrate"},
		{"read only", newFile(t), "mode=ro", "allowed to write"},
		{"no folder", filepath.Join(folder(t), "missing", "x.db"), "", "folder"},
		{"no database", garbage, "", "not an intact SQLite database"},
	} {
		client, err := holdfast.New(sqlite.New(open(t, c.path, c.parameters)))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if _, err := client.Mutex("m").Lock(t.Context()); !errors.Is(err, engine.ErrDenied) || !strings.Contains(fmt.Sprint(err), c.advice) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, err := holdfast.New(sqlite.New(nil)); err == nil {
		t.Error("New of a nil database: no error")
	}
}

// Schema makes the same tables as Migrate, and both may run again.
func TestSchema(t *testing.T) {
	t.Parallel()
	path := filepath.Join(folder(t), "locks.db")
	db := open(t, path, "")
	for range 2 {
		if _, err := db.Exec(sqlite.Schema()); err != nil {
			t.Fatal(err)
		}
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := sqlite.Migrate(t.Context(), open(t, path, "")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	count(t, db, 1, 2, 2)
}

// After a reboot the clock of the documents is another one. Their leases last for a TTL from when the
// first process uses the database again, and then are over even for those that have never seen them.
func TestReboot(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	db := open(t, path, "")
	const ttl = 400 * time.Millisecond
	acquire := func(id string) engine.Answer {
		t.Helper()
		a, err := sqlite.New(db).Acquire(t.Context(), engine.Request{Resource: engine.Resource{Prefix: "p", Name: "n"}, ID: id,
			Client: &engine.Client{ID: engine.ClientOf(id)}, Kind: engine.KindMutex, Capacity: 1, Weight: 1, TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	before := acquire("before.1")
	<-time.After(ttl)
	for which, ahead := range []int64{-1e15, 1e15} {
		for _, q := range []string{"UPDATE holdfast1_host SET boot = boot + 1",
			fmt.Sprintf("UPDATE holdfast1_document SET boot = boot + 1, made = made + %d, until = until + %[1]d", ahead)} {
			if _, err := db.Exec(q); err != nil {
				t.Fatal(err)
			}
		}
		rebooted := time.Now()
		if a := acquire(fmt.Sprintf("early.%d", which)); a.Status != engine.Busy {
			t.Errorf("at once after a reboot: %v", a.Status)
		}
		<-time.After(ttl)
		a := acquire(fmt.Sprintf("late.%d", which))
		if a.Status != engine.Granted || a.Token <= before.Token {
			t.Errorf("%v after a reboot: %v, token %d after %d", time.Since(rebooted), a.Status, a.Token, before.Token)
		}
		before = a
	}
}

// Documents whose time is over are deleted by and by, and so are messages.
func TestOldRowsGo(t *testing.T) {
	t.Parallel()
	db := open(t, newFile(t), "")
	const written = storetest.OldRows
	number := storetest.WriteOldRows(t, sqlite.NewStore(db), db)
	if n := number("SELECT count(*) FROM holdfast1_document"); n > written/2 {
		t.Errorf("%d documents are left", n)
	}
	if n := number("SELECT count(*) FROM holdfast1_document WHERE until - made > 1e6"); n != written/100 {
		t.Errorf("%d of %d documents that are to be kept are left", n, written/100)
	}
	if n := number("SELECT count(*) FROM holdfast1_wake"); n > written/2+100 || n == 0 {
		t.Errorf("%d of %d messages are left", n, written)
	}
}
