package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/postgres"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
)

// The locks and the data are in one database. The transaction that writes claims the lease's
// token first, so it cannot commit after a newer holder has claimed.
func Example_fence() {
	server, err := sqlservers.LaunchPostgreSQL() // your server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, server.DSN(""))
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	guard := fence.NewSQL(fence.PostgreSQL)
	err = errors.Join(
		postgres.Migrate(ctx, pool),
		guard.EnsureTable(ctx, fence.Pgx(pool)),
		pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "CREATE TABLE stock (id int PRIMARY KEY, amount int); INSERT INTO stock VALUES (42, 10)")
			return err
		}))
	if err != nil {
		log.Fatal(err)
	}
	c, err := holdfast.New(postgres.New(pool))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	// sell does not look whether the lease is still held, as a process does not that is paused.
	sell := func(lease *holdfast.Lease) error {
		return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			if err := guard.ClaimAll(ctx, fence.Pgx(tx), lease.Tokens()); err != nil {
				return err
			}
			var amount int
			if err := tx.QueryRow(ctx, "SELECT amount FROM stock WHERE id = 42").Scan(&amount); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "UPDATE stock SET amount = $1 WHERE id = 42", amount-1)
			return err
		})
	}
	stale, err := c.Mutex("stock:42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Break(ctx, "stock:42", stale.HolderID(), holdfast.Force()); err != nil {
		log.Fatal(err)
	}
	next, err := c.Mutex("stock:42").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer next.Release(ctx)
	fmt.Println("the next holder sells:", sell(next))
	fmt.Println("the stale one is refused:", errors.Is(sell(stale), fence.ErrStale))
	// Output:
	// the next holder sells: <nil>
	// the stale one is refused: true
}
