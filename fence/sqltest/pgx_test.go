package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/fence"
)

// openPgx connects to the database of a store by pgx's own interface.
func openPgx(t *testing.T) (store, *pgxpool.Pool) {
	t.Helper()
	db := openPostgres(t)
	var name string
	requireNil(t, db.QueryRow("SELECT current_database()").Scan(&name))
	pool, err := pgxpool.New(t.Context(), postgres.Get(t).DSN(name))
	requireNil(t, err)
	t.Cleanup(pool.Close)
	return db, pool
}

func beginPgx(t *testing.T, pool *pgxpool.Pool, opts pgx.TxOptions) pgx.Tx {
	t.Helper()
	tx, err := pool.BeginTx(t.Context(), opts)
	requireNil(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return tx
}

// A pgx.Tx claims as a *sql.Tx does, and the two see each other's claims.
func TestPgxClaims(t *testing.T) {
	db, pool := openPgx(t)
	ctx := t.Context()
	tx := beginPgx(t, pool, pgx.TxOptions{})
	for _, token := range []uint64{5, 5, 8} {
		requireNil(t, db.guard.Claim(ctx, fence.Pgx(tx), stock, token))
	}
	requireStale(t, db.guard.Claim(ctx, fence.Pgx(tx), stock, 7), 7, 8)
	requireNil(t, db.guard.ClaimAll(ctx, fence.Pgx(tx), map[string]uint64{"a": 3, stock: 8}))
	requireBlocked(t, db, func(ctx context.Context, other *sql.Tx) error { return db.guard.Claim(ctx, other, stock, 9) })
	requireNil(t, tx.Commit(ctx))
	requireStale(t, db.claim(t, stock, 7), 7, 8)

	tx = beginPgx(t, pool, pgx.TxOptions{})
	requireNil(t, db.guard.Claim(ctx, fence.Pgx(tx), stock, 20))
	requireNil(t, tx.Rollback(ctx))
	requireNil(t, db.claim(t, stock, 9))

	tx = beginPgx(t, pool, pgx.TxOptions{})
	requireStale(t, db.guard.Claim(ctx, fence.Pgx(tx), stock, 8), 8, 9)
	for _, none := range []fence.Tx{fence.Pgx(pool), fence.Pgx(pgx.Tx(nil))} {
		requireIs(t, db.guard.Claim(ctx, none, stock, 10), fence.ErrInvalid)
	}
}

func TestPgxTable(t *testing.T) {
	db, pool := openPgx(t)
	g := fence.NewSQL(fence.PostgreSQL, fence.WithTable("fence_of_pgx"))
	for range 2 {
		requireNil(t, g.EnsureTable(t.Context(), fence.Pgx(pool)))
	}
	tx := beginPgx(t, pool, pgx.TxOptions{})
	requireNil(t, g.Claim(t.Context(), fence.Pgx(tx), stock, 1))
	requireNil(t, tx.Commit(t.Context()))
	db.exec(t, "UPDATE fence_of_pgx SET claimed_at = CURRENT_TIMESTAMP - INTERVAL '2 hours'")
	if n, err := g.Forget(t.Context(), fence.Pgx(pool), time.Hour); n != 1 || err != nil {
		t.Fatalf("forgot %d, %v", n, err)
	}
	missing := fence.NewSQL(fence.PostgreSQL, fence.WithTable("nowhere.fence"))
	var pg *pgconn.PgError
	if err := missing.EnsureTable(t.Context(), fence.Pgx(pool)); !errors.As(err, &pg) {
		t.Fatalf("the schema does not exist: %v", err)
	}
}

func TestPgxRows(t *testing.T) {
	db, pool := openPgx(t)
	ctx := t.Context()
	db.createArticle(t, 10)
	tx := beginPgx(t, pool, pgx.TxOptions{})
	requireNil(t, db.guard.ClaimRow(ctx, fence.Pgx(tx), article(42), 5))
	requireNil(t, db.guard.Update(ctx, fence.Pgx(tx), article(42), 5, "amount = amount - $1", 3))
	requireStale(t, db.guard.ClaimRow(ctx, fence.Pgx(tx), article(42), 4), 4, 5)
	requireIs(t, db.guard.ClaimRow(ctx, fence.Pgx(tx), article(4711), 5), sql.ErrNoRows)
	cond, err := db.guard.Guard("fence", 3)
	requireNil(t, err)
	query := "UPDATE article SET amount = amount - $1, fence = $3 WHERE id = $2 AND " + cond
	res, err := db.guard.Exec(ctx, fence.Pgx(tx), article(42), 6, query, 2, 42, int64(6))
	requireNil(t, err)
	if n, err := res.RowsAffected(); n != 1 || err != nil {
		t.Fatalf("changed %d rows, %v", n, err)
	}
	_, err = db.guard.Exec(ctx, fence.Pgx(tx), article(42), 5, query, 2, 42, int64(5))
	requireStale(t, err, 5, 6)
	requireNil(t, tx.Commit(ctx))
	if n := amount(t, db); n != 5 {
		t.Fatalf("the amount is %d, want 5", n)
	}
}

// At any isolation, what the database aborts is a *pgconn.PgError, as the caller's retry
// expects, and with that retry nothing is lost.
func TestPgxIsolation(t *testing.T) {
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			db, pool := openPgx(t)
			db.createArticle(t, 0)
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			var tokens, sold, stale, ended atomic.Int64
			sell := func(token uint64) error {
				return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: level}, func(tx pgx.Tx) error {
					if err := db.guard.Claim(ctx, fence.Pgx(tx), stock, token); err != nil {
						return err
					}
					var n int
					if err := tx.QueryRow(ctx, "SELECT amount FROM article WHERE id = 42").Scan(&n); err != nil {
						return err
					}
					_, err := tx.Exec(ctx, "UPDATE article SET amount = $1 WHERE id = 42", n+1)
					return err
				})
			}
			if level != pgx.ReadCommitted { // a transaction that began before another claim is aborted
				tx := beginPgx(t, pool, pgx.TxOptions{IsoLevel: level})
				_, err := tx.Exec(ctx, "SELECT amount FROM article WHERE id = 42")
				requireNil(t, err)
				requireNil(t, sell(uint64(tokens.Add(1))))
				sold.Add(1)
				if err := db.guard.Claim(ctx, fence.Pgx(tx), stock, uint64(tokens.Add(1))); !aborted(err) {
					t.Fatalf("a claim behind another: %v, want an abort", err)
				}
				requireNil(t, tx.Rollback(ctx))
			}
			var all sync.WaitGroup
			for range 6 {
				all.Go(func() {
					for range 25 {
						token := uint64(tokens.Add(1) + rand.Int64N(4))
						for done := false; !done; {
							switch err := sell(token); {
							case err == nil:
								sold.Add(1)
								done = true
							case errors.Is(err, fence.ErrStale):
								stale.Add(1)
								done = true
							case aborted(err):
								ended.Add(1)
							default:
								t.Errorf("token %d: %v", token, err)
								done = true
							}
						}
					}
				})
			}
			all.Wait()
			if n := amount(t, db); int64(n) != sold.Load() || n == 0 {
				t.Fatalf("the amount is %d after %d sales", n, sold.Load())
			}
			t.Log(fmt.Sprint(sold.Load(), " sold, ", stale.Load(), " stale, ", ended.Load(), " aborted"))
		})
	}
}
