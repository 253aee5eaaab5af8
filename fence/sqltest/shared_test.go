package sqltest

import (
	"context"
	"database/sql"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
)

// Readers claim side by side, whatever their tokens, and are refused when a newer writer has
// claimed.
func TestReadersClaimTogether(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		for _, resource := range []string{"known", "unknown"} {
			if resource == "known" {
				requireNil(t, db.claim(t, resource, 3))
			}
			readers := map[uint64]*sql.Tx{7: db.begin(t), 5: db.begin(t), 6: db.begin(t)}
			if resource == "unknown" {
				requireNil(t, db.shared(t, resource, 5)) // the first reader inserts the row
			}
			for token, tx := range readers {
				requireNil(t, db.guard.ClaimShared(t.Context(), tx, resource, token))
			}
			if db.dialect != fence.SQLite {
				requireBlocked(t, db, func(ctx context.Context, tx *sql.Tx) error { return db.guard.Claim(ctx, tx, resource, 8) })
			}
			for _, tx := range readers {
				requireNil(t, tx.Commit())
			}
			requireNil(t, db.claim(t, resource, 8))
			requireStale(t, db.shared(t, resource, 7), 7, 8)
			requireNil(t, db.shared(t, resource, 9))
		}
		requireIs(t, db.shared(t, stock, 0), fence.ErrToken)
		requireIs(t, db.guard.ClaimShared(t.Context(), db.DB, stock, 1), fence.ErrInvalid)
	})
}

// A reader waits for a writer whose claim is not committed, also if nobody claimed before.
func TestReaderWaitsForAWriter(t *testing.T) {
	for _, openStore := range []func(*testing.T) store{openPostgres, openMaria} {
		db := openStore(t)
		t.Run(db.dialect.String(), func(t *testing.T) {
			tx := db.begin(t)
			requireNil(t, db.guard.Claim(t.Context(), tx, stock, 4))
			requireBlocked(t, db, func(ctx context.Context, other *sql.Tx) error {
				return db.guard.ClaimShared(ctx, other, stock, 5)
			})
			requireNil(t, tx.Commit())
			requireNil(t, db.shared(t, stock, 5))
		})
	}
}

// The first readers of a resource meet in an insert.
func TestFirstReaders(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		var all sync.WaitGroup
		for token := range uint64(8) {
			all.Go(func() {
				if err := db.shared(t, stock, token+1); err != nil {
					t.Errorf("token %d: %v", token+1, err)
				}
			})
		}
		all.Wait()
	})
}

// shared makes a reader's claim in a transaction of its own.
func (s store) shared(t *testing.T, resource string, token uint64) error {
	tx, err := s.BeginTx(t.Context(), nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := s.guard.ClaimShared(t.Context(), tx, resource, token); err != nil {
		return err
	}
	return tx.Commit()
}
