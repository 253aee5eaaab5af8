package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A holder does nothing until its lease has ended and another has the resource.
// It does not look at its lease when it goes on, as one does not that is paused
// between the look and the write.
func TestPausedHolderIsRefused(t *testing.T) {
	s := redistest.Start(t)
	onEach(t, func(t *testing.T, db store) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		db.createArticle(t, 10)
		lock := func(opts ...holdfast.LockOption) *holdfast.Lease {
			c, err := holdfast.New(goredis.New(s.Client()))
			requireNil(t, err)
			t.Cleanup(func() { _ = c.Close() })
			lease, err := c.Mutex(t.Name(), opts...).Lock(ctx)
			requireNil(t, err)
			return lease
		}
		sell := func(lease *holdfast.Lease) error {
			return db.guard.Do(ctx, db.DB, t.Name(), lease.Token(), func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE article SET amount = amount - 1 WHERE id = 42")
				return err
			})
		}
		paused := lock(holdfast.WithTTL(300*time.Millisecond), holdfast.WithoutRenewal())
		requireNil(t, sell(paused))
		requireNil(t, db.claimRow(t, article(43), paused.Token()))
		next := lock() // when the TTL of the first has run out
		requireNil(t, sell(next))
		requireNil(t, db.claimRow(t, article(43), next.Token()))

		requireStale(t, sell(paused), paused.Token(), next.Token())
		requireStale(t, db.update(t, article(43), paused.Token(), "amount = 0"), paused.Token(), next.Token())
		if n := amount(t, db); n != 8 {
			t.Fatalf("the amount is %d, want 8", n)
		}
		if err := paused.Release(ctx); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("release of the lost lease: %v", err)
		}
		requireNil(t, next.Release(ctx))
	})
}

// All tokens of several locks are claimed at once.
func TestTokensOfLeases(t *testing.T) {
	db := openSQLite(t)
	tx := db.begin(t)
	requireNil(t, db.guard.ClaimAll(t.Context(), tx, map[string]uint64{"stock:1": 7, "stock:2": 3}))
	requireNil(t, tx.Commit())
	requireStale(t, db.claim(t, "stock:1", 6), 6, 7)
	requireStale(t, db.claim(t, "stock:2", 2), 2, 3)
	requireIs(t, db.claim(t, "stock:3", 0), fence.ErrToken)
}
