package postgres

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
	"github.com/holdfast-go/holdfast/internal/storetest"
)

var (
	shared    = sqlservers.Share(sqlservers.LaunchPostgreSQL)
	databases atomic.Int32 // made so far
)

func TestMain(m *testing.M) {
	storetest.Main(openEngine)
	code := m.Run()
	shared.Stop()
	os.Exit(code)
}

// openEngine is for storetest; the target is a DSN.
func openEngine(target string) (engine.Engine, func(), error) {
	pool, err := pgxpool.New(context.Background(), target)
	if err != nil {
		return nil, nil, err
	}
	return New(pool), pool.Close, nil
}

// newDatabase makes an empty database on a server and returns its name.
func newDatabase(t testing.TB, s *sqlservers.Server) string {
	t.Helper()
	name := fmt.Sprint("test", databases.Add(1))
	exec(t, newPool(t, s.DSN("")), "CREATE DATABASE "+name)
	return name
}

// newPool connects to a database until the test ends.
func newPool(t testing.TB, dsn string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	requireNil(t, err)
	for _, f := range change {
		f(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	requireNil(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// newTable returns a pool of a database with the table.
func newTable(t testing.TB, s *sqlservers.Server) *pgxpool.Pool {
	t.Helper()
	pool := newPool(t, s.DSN(newDatabase(t, s)))
	requireNil(t, Migrate(t.Context(), pool))
	return pool
}

// newStore returns the documents in a table, without connections when the test ends.
func newStore(t testing.TB, pool *pgxpool.Pool, opts ...Option) *documents {
	t.Helper()
	s := newDocuments(pool, opts)
	t.Cleanup(s.connections.closeIdle)
	return s
}

// newEngine returns an engine on a table, without connections when the test ends.
func newEngine(t testing.TB, pool *pgxpool.Pool, opts ...Option) *Engine {
	t.Helper()
	e := New(pool, opts...)
	t.Cleanup(func() { e.Leave("") })
	return e
}

// newClient returns a client with an engine of its own, as another process has.
func newClient(t testing.TB, pool *pgxpool.Pool, opts ...Option) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(newEngine(t, pool, opts...))
	requireNil(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func exec(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	_, err := pool.Exec(context.Background(), sql, args...)
	requireNil(t, err)
}

// query returns the first column of the first row.
func queryOne[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) T {
	t.Helper()
	var v T
	requireNil(t, pool.QueryRow(context.Background(), sql, args...).Scan(&v))
	return v
}

func requireNil(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func key(name string) cas.Key { return cas.Key{Space: cas.Resources, Prefix: "p", Name: name} }

// swapOne makes one change, which has to succeed, and returns the document.
func swapOne(t testing.TB, s *documents, c cas.Change) cas.Doc {
	t.Helper()
	if c.Keep == 0 {
		c.Keep = time.Hour
	}
	outs, err := s.Swap(t.Context(), []cas.Change{c})
	requireNil(t, err)
	if !outs[0].Swapped {
		t.Fatalf("not swapped: %+v", outs[0])
	}
	return outs[0].Doc
}
