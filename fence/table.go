package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// CreateTable returns the statement that creates the guard's table if it does
// not exist, for migrations:
//
//	resource    name, compared byte by byte; primary key
//	token       newest token that was claimed
//	claimed_at  when, by the database's clock
//
// It returns "" if an option of the guard is invalid; the first use returns the
// error.
func (g *SQL) CreateTable() string {
	if g.err != nil {
		return ""
	}
	head := "CREATE TABLE IF NOT EXISTS " + g.table
	switch g.dialect {
	case PostgreSQL:
		return head + ` (
	resource   TEXT COLLATE "C" PRIMARY KEY,
	token      BIGINT NOT NULL,
	claimed_at TIMESTAMPTZ NOT NULL
)`
	case MySQL:
		return fmt.Sprintf(head+` (
	resource   VARBINARY(%d) PRIMARY KEY,
	token      BIGINT NOT NULL,
	claimed_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
) ENGINE=InnoDB`, MaxNameLen)
	default:
		return head + ` (
	resource   TEXT PRIMARY KEY,
	token      INTEGER NOT NULL,
	claimed_at TEXT NOT NULL
) WITHOUT ROWID`
	}
}

// EnsureTable creates the guard's table if it does not exist. Several nodes may
// call it at the same time. db is a *sql.DB, or a pool of pgx in [Pgx]. Errors:
// ErrInvalid, those of the database.
func (g *SQL) EnsureTable(ctx context.Context, db Tx) error {
	if g.err != nil {
		return g.err
	}
	_, err := db.ExecContext(ctx, g.CreateTable())
	if err == nil {
		return nil
	}
	// If several connections create a table at the same time, PostgreSQL returns an
	// error to all but one. The caller may also lack the right to create a table that
	// exists already.
	var token int64
	there := queryRow(ctx, db, "SELECT token FROM "+g.table+" WHERE 1 = 0", nil, &token)
	if errors.Is(there, sql.ErrNoRows) {
		return nil
	}
	return opError("create table", g.table, errors.Join(err, there))
}

// Forget deletes the tokens that were last claimed longer than age ago (at
// least 1 min), by the database's clock, and returns their number. A holder
// that is paused for longer than age is not refused afterwards: a day is enough
// for most uses. Call it from time to time if resource names come and go, as
// those of orders do. db is as for EnsureTable.
func (g *SQL) Forget(ctx context.Context, db Tx, age time.Duration) (int64, error) {
	if g.err != nil {
		return 0, g.err
	}
	if age < minRetention {
		return 0, optionError("age %v: use at least %v", age, minRetention)
	}
	query := "DELETE FROM " + g.table + " WHERE claimed_at < "
	var arg any = int64(age.Seconds())
	switch g.dialect {
	case PostgreSQL:
		query += "CURRENT_TIMESTAMP - CAST($1 AS BIGINT) * INTERVAL '1 second'"
	case MySQL:
		query += "CURRENT_TIMESTAMP - INTERVAL ? SECOND"
	default:
		query += "datetime('now', ?)"
		arg = fmt.Sprintf("-%d seconds", arg)
	}
	res, err := db.ExecContext(ctx, query, arg)
	if err != nil {
		return 0, opError("forget old tokens of", g.table, err)
	}
	return res.RowsAffected()
}
