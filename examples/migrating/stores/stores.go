// Package stores moves a fleet from one store to another, here from Redis to PostgreSQL, by
// a release in between that holds every lock on both. docs/MIGRATING.md explains it.
package stores

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/engine/postgres"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// Before is the client of the first release.
func Before(rdb redis.UniversalClient) (*holdfast.Client, error) {
	return holdfast.New(goredis.New(rdb))
}

// Between is the client of the release in between: a majority of two stores is both of them.
func Between(rdb redis.UniversalClient, pool *pgxpool.Pool) (*holdfast.Client, error) {
	return holdfast.New(quorum.New(goredis.New(rdb), postgres.New(pool)))
}

// After is the client of the last release.
func After(pool *pgxpool.Pool) (*holdfast.Client, error) {
	return holdfast.New(postgres.New(pool))
}

// Nested runs work under a mutex of the old store and one of the new store, each in its turn.
// It is for locks that are in use nearly all the time, which Between gets too rarely. work
// gets a context that ends when either of the two is lost, and the lease of each, whose tokens
// are not comparable with each other.
func Nested(ctx context.Context, old, next *holdfast.Mutex, work func(ctx context.Context, old, next *holdfast.Lease) error) error {
	return old.Do(ctx, func(ctx context.Context) error {
		first := holdfast.LeaseFromContext(ctx)
		return next.Do(ctx, func(ctx context.Context) error {
			return work(ctx, first, holdfast.LeaseFromContext(ctx))
		})
	})
}
