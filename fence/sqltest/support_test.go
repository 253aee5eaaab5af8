package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
)

var (
	postgres  = sqlservers.Share(sqlservers.LaunchPostgreSQL)
	maria     = sqlservers.Share(sqlservers.LaunchMySQL)
	databases atomic.Int32 // made so far
)

func TestMain(m *testing.M) {
	if dsn := os.Getenv(sellerDSN); dsn != "" {
		if err := sell(os.Getenv(sellerDriver), dsn); err != nil {
			fmt.Fprintln(os.Stderr, "seller:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	postgres.Stop()
	maria.Stop()
	os.Exit(code)
}

// store is an empty database of its own for one test.
type store struct {
	*sql.DB
	dialect fence.Dialect
	guard   *fence.SQL
	driver  string
	dsn     string
}

// onEach runs a test on each database: SQLite, PostgreSQL, MariaDB.
func onEach(t *testing.T, test func(t *testing.T, db store)) {
	t.Run("SQLite", func(t *testing.T) { test(t, openSQLite(t)) })
	t.Run("PostgreSQL", func(t *testing.T) { test(t, openPostgres(t)) })
	t.Run("MariaDB", func(t *testing.T) { test(t, openMaria(t)) })
}

func openSQLite(t *testing.T) store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.db")
	return open(t, fence.SQLite, "sqlite", "file:"+path+"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)")
}

func openPostgres(t *testing.T) store {
	t.Helper()
	return openServer(t, postgres.Get(t), fence.PostgreSQL, "pgx")
}

func openMaria(t *testing.T) store {
	t.Helper()
	return openServer(t, maria.Get(t), fence.MySQL, "mysql")
}

func openServer(t *testing.T, s *sqlservers.Server, d fence.Dialect, driver string) store {
	t.Helper()
	admin, err := sql.Open(driver, s.DSN(""))
	requireNil(t, err)
	defer admin.Close()
	name := fmt.Sprint("test", databases.Add(1))
	_, err = admin.ExecContext(t.Context(), "CREATE DATABASE "+name)
	requireNil(t, err)
	return open(t, d, driver, s.DSN(name))
}

func open(t *testing.T, d fence.Dialect, driver, dsn string) store {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	requireNil(t, err)
	db.SetMaxOpenConns(20)
	db.SetMaxIdleConns(20)
	t.Cleanup(func() { _ = db.Close() })
	s := store{DB: db, dialect: d, guard: fence.NewSQL(d), driver: driver, dsn: dsn}
	requireNil(t, s.guard.EnsureTable(t.Context(), db))
	return s
}

// q writes a statement with ? in the dialect's way.
func (s store) q(query string) string {
	if s.dialect != fence.PostgreSQL {
		return query
	}
	var b strings.Builder
	for i, part := range strings.Split(query, "?") {
		if i > 0 {
			fmt.Fprintf(&b, "$%d", i)
		}
		b.WriteString(part)
	}
	return b.String()
}

func (s store) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	_, err := s.ExecContext(t.Context(), s.q(query), args...)
	requireNil(t, err)
}

// begin starts a transaction that the test's end rolls back at the latest.
func (s store) begin(t *testing.T) *sql.Tx {
	t.Helper()
	tx, err := s.BeginTx(t.Context(), nil)
	requireNil(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// claim makes a claim in a transaction of its own.
func (s store) claim(t *testing.T, resource string, token uint64) error {
	t.Helper()
	return s.guard.Do(t.Context(), s.DB, resource, token, func(*sql.Tx) error { return nil })
}

// requireBlocked checks that a call waits for a transaction: it fails only when its ctx
// or the lock timeout of the database ends.
func requireBlocked(t *testing.T, s store, call func(ctx context.Context, tx *sql.Tx) error) {
	t.Helper()
	tx, err := s.BeginTx(t.Context(), nil)
	requireNil(t, err)
	defer tx.Rollback()
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	if err := call(ctx, tx); err == nil || errors.Is(err, fence.ErrStale) {
		t.Fatalf("did not wait for the transaction before it: %v", err)
	}
}

func requireNil(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func requireIs(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("got %v, want %v", err, target)
	}
}

func requireStale(t *testing.T, err error, token, newest uint64) {
	t.Helper()
	var stale *fence.StaleError
	if !errors.Is(err, fence.ErrStale) || !errors.As(err, &stale) {
		t.Fatalf("got %v, want ErrStale", err)
	}
	if stale.Token != token || stale.Newest != newest {
		t.Fatalf("got %v, want token %d refused for %d", err, token, newest)
	}
}
