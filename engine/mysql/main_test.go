package mysql_test

import (
	"database/sql"
	"fmt"
	"sync/atomic"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/mysql"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
	"github.com/holdfast-go/holdfast/internal/storetest"
)

// shared is the server of the tests that do not harm it.
var shared = sqlservers.Share(sqlservers.LaunchMySQL)

func TestMain(m *testing.M) {
	storetest.Main(openEngine)
	leaktest.Main(m, shared.Stop)
}

// openEngine is for storetest; the target is a data source name.
func openEngine(target string) (engine.Engine, func(), error) {
	db, err := sql.Open("mysql", target)
	if err != nil {
		return nil, nil, err
	}
	return mysql.New(db), func() { _ = db.Close() }, nil
}

var databases atomic.Int32 // made so far

// newDatabase makes a database with the tables on the shared server, and returns its data source name.
func newDatabase(t testing.TB) string {
	t.Helper()
	return makeDatabase(t, shared.Get(t))
}

func makeDatabase(t testing.TB, server *sqlservers.Server) string {
	t.Helper()
	name := fmt.Sprintf("holdfast%d", databases.Add(1))
	if _, err := open(t, server.DSN("mysql")).ExecContext(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	dsn := server.DSN(name)
	if err := mysql.Migrate(t.Context(), open(t, dsn)); err != nil {
		t.Fatal(err)
	}
	return dsn
}

func open(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
