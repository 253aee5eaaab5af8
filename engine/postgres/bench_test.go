package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
)

// BenchmarkPair measures Lock and Release without contention beside what else a pair could be: two bare
// commits of one small row, PostgreSQL's advisory locks, and a transaction that locks a row.
// Rounds of all are interleaved, and each reports its median.
func BenchmarkPair(b *testing.B) {
	for _, fsync := range []string{"off", "on"} {
		b.Run("fsync="+fsync, func(b *testing.B) {
			var opts []sqlservers.Option
			if fsync == "on" {
				opts = append(opts, sqlservers.WithFsync())
			}
			server := sqlservers.StartPostgreSQL(b, opts...)
			pool := newPool(b, server.DSN(newDatabase(b, server)))
			requireNil(b, Migrate(b.Context(), pool))
			exec(b, pool, "CREATE TABLE bare (id int PRIMARY KEY, n int) WITH (fillfactor = 50)")
			exec(b, pool, "INSERT INTO bare VALUES (1, 0), (2, 0)")
			m := newClient(b, pool).Mutex("a")
			relaxed := newClient(b, pool, WithRelaxed()).Mutex("b")
			pairs := []struct {
				name string
				run  func(ctx context.Context) error
			}{
				{"holdfast", func(ctx context.Context) error { return pair(ctx, m) }},
				{"relaxed", func(ctx context.Context) error { return pair(ctx, relaxed) }},
				{"bare", func(ctx context.Context) error { return bare(ctx, pool) }},
				{"advisory", func(ctx context.Context) error { return advisory(ctx, pool) }},
				{"for-update", func(ctx context.Context) error { return forUpdate(ctx, pool) }},
			}
			medians := make([]*durations, len(pairs))
			for i := range medians {
				medians[i] = &durations{}
			}
			for b.Loop() {
				for i, p := range pairs {
					for range 20 {
						began := time.Now()
						requireNil(b, p.run(b.Context()))
						medians[i].add(time.Since(began))
					}
				}
			}
			b.ReportMetric(0, "ns/op")
			for i, p := range pairs {
				b.ReportMetric(float64(medians[i].median().Microseconds()), p.name+"-µs")
				b.ReportMetric(float64(medians[i].median())/float64(medians[2].median()), p.name+"/bare")
			}
		})
	}
}

func pair(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

func bare(ctx context.Context, pool *pgxpool.Pool) error {
	for range 2 {
		if _, err := pool.Exec(ctx, "UPDATE bare SET n = n + 1 WHERE id = $1", 1); err != nil {
			return err
		}
	}
	return nil
}

func advisory(ctx context.Context, pool *pgxpool.Pool) error {
	return pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		var locked bool
		if err := c.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", 42).Scan(&locked); err != nil || !locked {
			return fmt.Errorf("not locked: %w", err)
		}
		return c.QueryRow(ctx, "SELECT pg_advisory_unlock($1)", 42).Scan(&locked)
	})
}

func forUpdate(ctx context.Context, pool *pgxpool.Pool) error {
	tx, err := pool.Begin(ctx)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "SELECT FROM bare WHERE id = $1 FOR UPDATE", 2); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// BenchmarkHandOff measures a turn of two clients that pass one lease to each other, beside a bare commit and
// a bare notification to another connection.
func BenchmarkHandOff(b *testing.B) {
	for _, fsync := range []string{"off", "on"} {
		b.Run("fsync="+fsync, func(b *testing.B) {
			var opts []sqlservers.Option
			if fsync == "on" {
				opts = append(opts, sqlservers.WithFsync())
			}
			server := sqlservers.StartPostgreSQL(b, opts...)
			pool := newPool(b, server.DSN(newDatabase(b, server)))
			requireNil(b, Migrate(b.Context(), pool))
			turns := make(chan struct{}, 1024)
			ctx, stop := context.WithCancel(b.Context())
			defer stop()
			for range 2 {
				m := newClient(b, pool).Mutex("a")
				go func() {
					for ctx.Err() == nil && pair(ctx, m) == nil {
						turns <- struct{}{}
					}
				}()
			}
			<-turns
			began, n := time.Now(), 0
			for b.Loop() {
				<-turns
				n++
			}
			b.ReportMetric(float64(time.Since(began).Microseconds())/float64(n), "µs/turn")
			stop()
			for len(turns) > 0 {
				<-turns
			}
		})
	}
}
