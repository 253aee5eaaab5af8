package doctorstores

import (
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"testing"

	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/engine"
	sqliteengine "github.com/holdfast-go/holdfast/engine/sqlite"
)

func sqliteOpen(t testing.TB, path, parameters string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?"+parameters)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// sqliteFile makes a database with the tables.
func sqliteFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "locks.db")
	db := sqliteOpen(t, path, "")
	must(t, sqliteengine.Migrate(t.Context(), db))
	must(t, db.Close())
	return path
}

func sqliteExec(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		_, err := db.ExecContext(t.Context(), s)
		must(t, err)
	}
}

func examineSQLite(t testing.TB, path, parameters string) report {
	t.Helper()
	db := sqliteOpen(t, path, parameters)
	return SQLite(t.Context(), subject(func() engine.Engine { return sqliteengine.New(db) }), db)
}

func TestSQLiteAsItShouldBe(t *testing.T) {
	path := sqliteFile(t)
	r := slices.DeleteFunc(examineSQLite(t, path, ""), func(f diagnosis.Finding) bool { return f.Check == "filesystem" }) // that of this machine; see TestFilesystems
	r.requireSound(t, "reach", "file", "version", "durability", "integrity", "schema", "rights", "sharing", "writers", "trial", "ttl")
	var n int
	must(t, sqliteOpen(t, path, "").QueryRow("SELECT count(*) FROM holdfast1_document WHERE length(key) = 0").Scan(&n))
	if n != 0 {
		t.Error("the document of the check of rights is there")
	}
}

// Read-only, nothing is acquired, and that this is not tried is a finding.
func TestSQLiteExaminedReadOnly(t *testing.T) {
	path := sqliteFile(t)
	db := sqliteOpen(t, path, "")
	s := subject(func() engine.Engine { return sqliteengine.New(db) })
	s.ReadOnly = true
	r := report(SQLite(t.Context(), s, db))
	r.require(t, "trial", diagnosis.Unknown, "nothing is acquired here")
	var n int
	must(t, db.QueryRow("SELECT count(*) FROM holdfast1_document").Scan(&n))
	if n != 0 {
		t.Errorf("the examination left %d documents", n)
	}
}

func TestSQLiteOutOfReach(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no", "locks.db")
	r := examineSQLite(t, missing, "mode=rw")
	r.require(t, "reach", diagnosis.Fail, "refused: .*unable to open database file")
	r.requireWorst(t, diagnosis.Denied)
	text := filepath.Join(t.TempDir(), "text")
	must(t, os.WriteFile(text, []byte("this is a text that is long enough for the header of a database, or longer still: one hundred bytes of it."), 0o600))
	examineSQLite(t, text, "").require(t, "reach", diagnosis.Fail, "refused: .*file is not a database")
	r = examineSQLite(t, "x", "mode=memory")
	r.require(t, "file", diagnosis.Fail, "the database is in memory")
	r.requireWorst(t, diagnosis.Misconfig)
}

func TestSQLiteJournal(t *testing.T) {
	path := sqliteFile(t)
	sqliteExec(t, sqliteOpen(t, path, ""), "PRAGMA journal_mode = DELETE")
	examineSQLite(t, path, "").require(t, "durability", diagnosis.Warn, "^journal_mode delete: readers and the writer wait")
	r := examineSQLite(t, path, "_pragma=journal_mode(memory)")
	r.require(t, "durability", diagnosis.Fail, "^journal_mode memory: a process that is killed destroys")
	r.requireWorst(t, diagnosis.Misconfig)
}

func TestSQLiteTables(t *testing.T) {
	path := sqliteFile(t)
	db := sqliteOpen(t, path, "")
	sqliteExec(t, db, "CREATE TABLE orders (id INTEGER)")
	examineSQLite(t, path, "").require(t, "sharing", diagnosis.Warn, `^the file has other tables too \(orders\)`)
	sqliteExec(t, db, "ALTER TABLE holdfast1_document DROP COLUMN until")
	examineSQLite(t, path, "").require(t, "schema", diagnosis.Fail, "is not the one of Holdfast: .*no such column: until")
	sqliteExec(t, db, "DROP TABLE holdfast1_document", "CREATE TABLE holdfast1_document (key, rev, boot, made, until, value)")
	examineSQLite(t, path, "").require(t, "schema", diagnosis.Fail, "its key is not unique")
	sqliteExec(t, db, "DROP TABLE holdfast1_document")
	r := examineSQLite(t, path, "")
	r.require(t, "schema", diagnosis.Fail, "the table holdfast1_document is missing")
	r.requireWorst(t, diagnosis.Misconfig)
}

func TestSQLiteReadOnly(t *testing.T) {
	path := sqliteFile(t)
	for _, parameters := range []string{"mode=ro", "_pragma=query_only(1)"} {
		r := examineSQLite(t, path, parameters)
		r.require(t, "rights", diagnosis.Fail, "^the file cannot be written: .*readonly database")
		r.requireWorst(t, diagnosis.Denied)
	}
}

func TestSQLiteForeignWriter(t *testing.T) {
	t.Parallel()
	path := sqliteFile(t)
	c, err := sqliteOpen(t, path, "").Conn(t.Context())
	must(t, err)
	defer c.Close()
	_, err = c.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	must(t, err)
	r := examineSQLite(t, path, "")
	r.require(t, "writers", diagnosis.Fail, "^another process has had the right to write for 3")
	r.requireWorst(t, diagnosis.Unreachable)
}

func TestSQLiteDamaged(t *testing.T) {
	path := sqliteFile(t)
	db := sqliteOpen(t, path, "")
	sqliteExec(t, db, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 2000) INSERT INTO holdfast1_document SELECT CAST('r' || i AS BLOB), 1, 0, 0, 0, randomblob(200) FROM n",
		"PRAGMA wal_checkpoint(TRUNCATE)")
	must(t, db.Close())
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt(make([]byte, 40<<10), 40<<10)
	must(t, err)
	must(t, f.Close())
	r := examineSQLite(t, path, "")
	r.require(t, "integrity", diagnosis.Fail, "the file is damaged: ")
	r.requireWorst(t, diagnosis.Misconfig)
}

func TestSQLiteLargeLog(t *testing.T) {
	path := sqliteFile(t)
	q := &sqlite{path: path}
	must(t, os.WriteFile(path+"-wal", nil, 0o600))
	must(t, os.Truncate(path+"-wal", largeLog))
	q.log()
	report(q.findings).require(t, "bloat", diagnosis.Warn, "the write-ahead log has 64.0 MiB")
}
