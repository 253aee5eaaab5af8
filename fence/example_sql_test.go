package fence_test

import (
	"context"
	"database/sql"
	"errors"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
)

// The claim is the first statement of the transaction. It keeps newer holders
// waiting until the commit, and older ones out for ever.
func ExampleSQL_Do() {
	sell := func(ctx context.Context, db *sql.DB, lease *holdfast.Lease, n int) error {
		guard := fence.NewSQL(fence.PostgreSQL) // and guard.EnsureTable(ctx, db) once
		return guard.Do(ctx, db, "stock:42", lease.Token(), func(tx *sql.Tx) error {
			var amount int
			if err := tx.QueryRowContext(ctx, "SELECT amount FROM stock WHERE id = $1", 42).Scan(&amount); err != nil {
				return err
			}
			if amount < n {
				return errors.New("sold out")
			}
			_, err := tx.ExecContext(ctx, "UPDATE stock SET amount = $1 WHERE id = $2", amount-n, 42)
			return err
		})
	}
	_ = sell
}

// The row itself keeps the token, in a column: fence BIGINT NULL.
func ExampleSQL_Update() {
	sell := func(ctx context.Context, tx *sql.Tx, lease *holdfast.Lease, n int) error {
		guard := fence.NewSQL(fence.MySQL)
		row := fence.Row{Table: "stock", Key: map[string]any{"id": 42}}
		err := guard.Update(ctx, tx, row, lease.Token(), "amount = amount - ?", n)
		switch {
		case errors.Is(err, fence.ErrStale):
			return errors.New("another has sold meanwhile: roll back, lock again, start over")
		case errors.Is(err, sql.ErrNoRows):
			return errors.New("there is no such article")
		}
		return err
	}
	_ = sell
}

// A hand-written statement with a condition of its own.
func ExampleSQL_Exec() {
	sell := func(ctx context.Context, tx *sql.Tx, lease *holdfast.Lease, n int) error {
		guard := fence.NewSQL(fence.PostgreSQL)
		cond, err := guard.Guard("fence", 3) // (fence IS NULL OR fence <= $3)
		if err != nil {
			return err
		}
		row := fence.Row{Table: "stock", Key: map[string]any{"id": 42}}
		res, err := guard.Exec(ctx, tx, row, lease.Token(),
			"UPDATE stock SET amount = amount - $1, fence = $3 WHERE id = $2 AND amount >= $1 AND "+cond,
			n, 42, int64(lease.Token()))
		if err != nil {
			return err // fence.ErrStale, sql.ErrNoRows …
		}
		if sold, err := res.RowsAffected(); err != nil || sold == 0 {
			return errors.Join(err, errors.New("sold out"))
		}
		return nil
	}
	_ = sell
}
