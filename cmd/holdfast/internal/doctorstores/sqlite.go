package doctorstores

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// sqlite is a database and its answers.
type sqlite struct {
	examination
	db   *sql.DB
	conn *sql.Conn
	path string // of the file; "": it is in memory
}

// SQLite examines a database, by one connection.
func SQLite(ctx context.Context, s Subject, db *sql.DB) []diagnosis.Finding {
	q := &sqlite{examination: examination{Subject: s}, db: db}
	defer func() {
		if q.conn != nil {
			_ = q.conn.Close() // it goes back to the pool
		}
	}()
	if !q.reach(ctx, "SQLite", sqliteRefused, q.ping) {
		return q.findings
	}
	asks, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	if !q.file(asks) {
		return q.findings
	}
	q.version(asks)
	q.filesystem()
	q.journal(asks)
	q.integrity(asks)
	if q.schema(asks) && q.rights(asks) {
		q.sharing(asks)
		q.writers(asks)
		q.log()
		q.try(ctx, "look at the machine's load: messages are rows of holdfast1_wake, which waiters read")
	}
	q.ttl()
	return q.findings
}

func (q *sqlite) ping(ctx context.Context) (err error) {
	if q.conn == nil {
		if q.conn, err = q.db.Conn(ctx); err != nil {
			return err
		}
	}
	var tables int
	return q.row(ctx, "SELECT count(*) FROM sqlite_master", &tables)
}

func (q *sqlite) row(ctx context.Context, query string, into ...any) error {
	return q.conn.QueryRowContext(ctx, query).Scan(into...)
}

// file finds out which file it is. It reports whether it is one.
func (q *sqlite) file(ctx context.Context) bool {
	c := q.check("file")
	var number int
	var name string
	if err := q.row(ctx, "PRAGMA database_list", &number, &name, &q.path); c.Unanswered(err) {
		return false
	}
	if q.path == "" {
		c.Fail("give the path of a file", "the database is in memory: no other process sees it")
		return false
	}
	info, err := os.Stat(q.path)
	if c.Unanswered(err) {
		return false
	}
	c.With("size_bytes", info.Size()).OK("%s, %s", q.path, diagnosis.Size(info.Size()))
	return true
}

// oldestSQLite is the first version with ON CONFLICT, which the engine's statements have.
const oldestSQLite = "3.24"

func (q *sqlite) version(ctx context.Context) {
	c := q.check("version")
	var version string
	if err := q.row(ctx, "SELECT sqlite_version()", &version); c.Unanswered(err) {
		return
	}
	if diagnosis.Older(version, oldestSQLite) {
		c.With("version", version).Fail("use a driver with SQLite 3.24 or newer", "SQLite %s is too old", version)
		return
	}
	c.With("version", version).OK("SQLite %s", version)
}

// sqliteCode returns SQLite's code of an error, or 0. Drivers name it differently.
func sqliteCode(err error) int {
	var coded interface {
		error
		Code() int
	}
	if errors.As(err, &coded) {
		return coded.Code() & 0xff
	}
	return 0
}

// sqliteRefused reports whether the process may not open or read the file, or it is no database.
func sqliteRefused(err error) bool {
	const perm, canNotOpen, auth, notADatabase = 3, 14, 23, 26
	switch sqliteCode(err) {
	case perm, canNotOpen, auth, notADatabase:
		return true
	}
	return strings.Contains(err.Error(), "unable to open database file") || strings.Contains(err.Error(), "file is not a database")
}

// busy reports whether another connection has the lock.
func busy(err error) bool {
	const busy, locked = 5, 6
	code := sqliteCode(err)
	return code == busy || code == locked || err != nil && strings.Contains(err.Error(), "is locked")
}

// writers measures how long the right to write is waited for: SQLite has one writer for each file.
func (q *sqlite) writers(ctx context.Context) {
	c := q.check("writers")
	var trips diagnosis.RoundTrips
	begin := time.Now()
	for len(trips) < 20 {
		sent := time.Now()
		err := q.exec(ctx, "BEGIN IMMEDIATE")
		for busy(err) && time.Since(begin) < reachLimit {
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
			}
			err = q.exec(ctx, "BEGIN IMMEDIATE")
		}
		if busy(err) {
			c.FailAs(diagnosis.Unreachable, "find the process (fuser "+q.path+"), and give the locks a file of their own",
				"another process has had the right to write for %s: no lease can be granted or renewed", diagnosis.Span(time.Since(sent)))
			return
		}
		if c.Unanswered(err) {
			return
		}
		if err := q.exec(ctx, "ROLLBACK"); c.Unanswered(err) {
			return
		}
		trips = append(trips, time.Since(sent))
	}
	q.worst = max(q.worst, trips.Longest())
	c.With("wait_max_ms", diagnosis.Millis(trips.Longest())).OK("the right to write was waited for %s at most", diagnosis.Span(trips.Longest()))
}

func (q *sqlite) exec(ctx context.Context, statement string) error {
	_, err := q.conn.ExecContext(ctx, statement)
	return err
}
