package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
)

// brokenDB is a database whose transactions accept every statement, and fail where the test says.
type brokenDB struct {
	claim, commit        error
	claims, began, ended int // ended: committed or rolled back
}

func (d *brokenDB) Connect(context.Context) (driver.Conn, error) { return brokenConn{d}, nil }
func (d *brokenDB) Driver() driver.Driver                        { return nil }

type brokenConn struct{ d *brokenDB }

func (c brokenConn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (c brokenConn) Close() error                        { return nil }

func (c brokenConn) Begin() (driver.Tx, error) {
	c.d.began++
	return c, nil
}

func (c brokenConn) ExecContext(context.Context, string, []driver.NamedValue) (driver.Result, error) {
	c.d.claims++
	return driver.RowsAffected(1), c.d.claim
}

func (c brokenConn) Commit() error {
	c.d.ended++
	return c.d.commit
}

func (c brokenConn) Rollback() error {
	c.d.ended++
	return nil
}

func TestSQLDoReturnsTheErrorOfTheCommit(t *testing.T) {
	failure := errors.New("connection lost in the commit")
	for _, commit := range []error{nil, failure} {
		d := &brokenDB{commit: commit}
		db := sql.OpenDB(d)
		runs := 0
		err := fence.NewSQL(fence.PostgreSQL).Do(t.Context(), db, stock, 1, func(*sql.Tx) error { runs++; return nil })
		if !errors.Is(err, commit) {
			t.Errorf("commit: %v, Do: %v", commit, err)
		}
		if runs != 1 || d.began != 1 || d.ended != 1 {
			t.Errorf("fn ran %d times, %d transactions began and %d ended", runs, d.began, d.ended)
		}
		requireNil(t, db.Close())
	}
}

// A claim that the database aborts is repeated a few times, each time in a transaction of its
// own. Nothing is left open, and fn does not run.
func TestSQLDoRepeatsAnAbortedClaim(t *testing.T) {
	deadlock := errors.New("deadlock detected")
	d := &brokenDB{claim: deadlock}
	db := sql.OpenDB(d)
	defer db.Close()
	err := fence.NewSQL(fence.PostgreSQL).Do(t.Context(), db, stock, 1, func(*sql.Tx) error {
		t.Error("fn ran without a claim")
		return nil
	})
	if !errors.Is(err, deadlock) || d.claims != 5 || d.began != 5 || d.ended != 5 {
		t.Errorf("%v after %d claims; %d transactions began and %d ended", err, d.claims, d.began, d.ended)
	}
}

// An error of fn, or a panic, rolls back.
func TestSQLDoRollsBack(t *testing.T) {
	failure := errors.New("sold out")
	for name, fn := range map[string]func(*sql.Tx) error{
		"error": func(*sql.Tx) error { return failure },
		"panic": func(*sql.Tx) error { panic(failure) },
	} {
		d := &brokenDB{commit: errors.New("committed")}
		db := sql.OpenDB(d)
		func() {
			defer func() {
				if r := recover(); name == "panic" && r != error(failure) {
					t.Errorf("%s: recovered %v", name, r)
				}
			}()
			if err := fence.NewSQL(fence.PostgreSQL).Do(t.Context(), db, stock, 1, fn); !errors.Is(err, failure) {
				t.Errorf("%s: %v", name, err)
			}
		}()
		if d.ended != 1 {
			t.Errorf("%s: %d transactions ended", name, d.ended)
		}
		requireNil(t, db.Close())
	}
}
