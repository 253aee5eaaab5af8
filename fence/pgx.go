package fence

import (
	"context"
	"database/sql"
	"errors"
)

// Pgx lets a guard for PostgreSQL use a transaction of github.com/jackc/pgx/v5:
//
//	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
//		if err := guard.Claim(ctx, fence.Pgx(tx), "stock:42", lease.Token()); err != nil {
//			return err
//		}
//		// read and write with tx
//	})
//
// EnsureTable and Forget also accept a *pgxpool.Pool in Pgx. Claims refuse it, and a *pgx.Conn,
// with ErrInvalid, as they refuse a *sql.DB.
func Pgx[C interface{ RowsAffected() int64 }, R interface{ Scan(dest ...any) error }](tx interface {
	Exec(ctx context.Context, sql string, args ...any) (C, error)
	QueryRow(ctx context.Context, sql string, args ...any) R
}) Tx {
	if tx == nil {
		return nil
	}
	_, commits := tx.(interface{ Commit(context.Context) error })
	return &pgxTx{
		transaction: commits,
		exec: func(ctx context.Context, query string, args []any) (int64, error) {
			tag, err := tx.Exec(ctx, query, args...)
			if err != nil {
				return 0, err
			}
			return tag.RowsAffected(), nil
		},
		row: func(ctx context.Context, query string, args []any, dest []any) error {
			return tx.QueryRow(ctx, query, args...).Scan(dest...)
		},
	}
}

// pgxTx is a pgx.Tx, or something else of pgx that executes statements.
type pgxTx struct {
	transaction bool
	exec        func(ctx context.Context, query string, args []any) (int64, error)
	row         func(ctx context.Context, query string, args, dest []any) error
}

func (tx *pgxTx) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	n, err := tx.exec(ctx, query, args)
	return pgxResult(n), err
}

// pgxResult is the number of rows that a statement affected.
type pgxResult int64

func (n pgxResult) RowsAffected() (int64, error) { return int64(n), nil }

func (pgxResult) LastInsertId() (int64, error) {
	return 0, errors.New("fence: PostgreSQL has no last inserted ID")
}
