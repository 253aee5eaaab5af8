package postgres_test

import (
	"context"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/postgres"
)

func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://app@db.example.org/app")
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	if err := postgres.Migrate(ctx, pool); err != nil { // once; or apply what postgres.Schema returns
		log.Fatal(err)
	}
	c, err := holdfast.New(postgres.New(pool))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	lease, err := c.Mutex("stock:42").Lock(ctx)
	if err != nil {
		log.Print(err)
		return
	}
	defer lease.Release(ctx)
	// The work, with lease.Context(), fenced by lease.Token().
}
