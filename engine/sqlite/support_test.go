package sqlite_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/engine/sqlite"
)

// newFile returns the path of a database that has the tables.
func newFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(folder(t), "locks.db")
	db := open(t, path, "")
	if err := sqlite.Migrate(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// folder returns an empty folder, which outlives no test.
func folder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "holdfast-sqlite-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// open opens a database. parameters are those of the driver's data source name.
func open(t testing.TB, path, parameters string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?"+parameters)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
