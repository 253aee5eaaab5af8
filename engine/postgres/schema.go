package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// tableName has the version of the table in it, so that programs with different versions
// can run side by side during a deployment.
const tableName = "holdfast1_doc"

// Schema returns the SQL that creates what the engine needs, to be applied by hand. It may be
// applied again. A user of the engine needs USAGE on the schema, and SELECT, INSERT,
// UPDATE and DELETE on the table.
func Schema(opts ...Option) string {
	// Updates are HOT as long as their page has room and no index contains what they change:
	// hence the fill factor, and no index on keep_until.
	return fmt.Sprintf(`CREATE TABLE IF NOT EXISTS %s (
	space      "char"      NOT NULL,
	prefix     bytea       NOT NULL,
	name       bytea       NOT NULL,
	rev        bigint      NOT NULL,
	value      bytea       NOT NULL,
	keep_until timestamptz NOT NULL,
	PRIMARY KEY (space, prefix, name)
) WITH (
	fillfactor = 50,
	autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
	autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000,
	toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 500
);
`, collect(opts).table())
}

// migrateLock is an advisory lock: two CREATE TABLE IF NOT EXISTS at once may fail.
const migrateLock = 0x686f6c6466617374 // "holdfast"

// Migrate applies Schema. It may be called again, and by several processes at once.
func Migrate(ctx context.Context, pool *pgxpool.Pool, opts ...Option) error {
	err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(migrateLock)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, Schema(opts...))
		return err
	})
	if err != nil {
		return fmt.Errorf("postgres: migrate: %w", err)
	}
	return nil
}
