package main

import (
	"context"
	"database/sql"
	"errors"
)

// What the contenders on database/sql share.

const ringTable = "CREATE TABLE ring (name VARCHAR(200) PRIMARY KEY, turn INT NOT NULL)"

// sqlRing passes a turn by a change of a row.
func sqlRing(db *sql.DB) polledRing {
	return polledRing{
		add: func(ctx context.Context, resource string) error {
			_, err := db.ExecContext(ctx, "INSERT INTO ring VALUES (?, 0)", resource)
			return err
		},
		turn: func(ctx context.Context, resource string) (turn int, err error) {
			err = db.QueryRowContext(ctx, "SELECT turn FROM ring WHERE name = ?", resource).Scan(&turn)
			return turn, err
		},
		next: func(ctx context.Context, resource string) error {
			_, err := db.ExecContext(ctx, "UPDATE ring SET turn = turn + 1 WHERE name = ?", resource)
			return err
		},
		end: func() { _ = db.Close() },
	}
}

// sqlCalls are the statements of a lock that takes a connection for as long as it is held.
type sqlCalls struct {
	begin, lock, unlock string
	named               bool // lock and unlock have the resource as a parameter
}

// sqlPeer opens a client of such locks. Their Lock does not return when ctx ends: every caller gets
// its turn in the end.
func sqlPeer(driver string, q sqlCalls) func(s settings) (client, error) {
	return func(s settings) (client, error) {
		db, err := s.sqlPool(driver)
		if err != nil {
			return nil, err
		}
		return simple{func(resource string) calls { return q.on(db, resource) }, func() { _ = db.Close() }}, nil
	}
}

func (q sqlCalls) on(db *sql.DB, resource string) calls {
	var c *sql.Conn
	var args []any
	if q.named {
		args = append(args, resource)
	}
	return calls{
		lock: func(ctx context.Context) (err error) {
			ctx = context.WithoutCancel(ctx)
			if c, err = db.Conn(ctx); err != nil {
				return err
			}
			if q.begin != "" {
				_, err = c.ExecContext(ctx, q.begin)
			}
			if err == nil && q.lock != "" {
				_, err = c.ExecContext(ctx, q.lock, args...)
			}
			return err
		},
		unlock: func(ctx context.Context) error {
			_, err := c.ExecContext(context.WithoutCancel(ctx), q.unlock, args...)
			return errors.Join(err, c.Close())
		},
	}
}

func execAll(ctx context.Context, db *sql.DB, statements ...string) error {
	for _, s := range statements {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return err
		}
	}
	return nil
}
