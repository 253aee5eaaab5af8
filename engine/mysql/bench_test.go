package mysql_test

import (
	"context"
	"testing"
)

// What an uncontended Lock and Release cost on a server that syncs its log, beside two bare
// changes of a row through the same pool, and beside the server's own lock.
func BenchmarkPair(b *testing.B) {
	dsn := syncedDatabase(b) + "?interpolateParams=true"
	db := open(b, dsn)
	b.Run("floor", func(b *testing.B) {
		if _, err := db.Exec("CREATE TABLE IF NOT EXISTS floor (k VARBINARY(100) PRIMARY KEY, n BIGINT, v BLOB)"); err != nil {
			b.Fatal(err)
		}
		if _, err := db.Exec("REPLACE INTO floor VALUES ('k', 0, '')"); err != nil {
			b.Fatal(err)
		}
		value := make([]byte, 200)
		for b.Loop() {
			for range 2 {
				if _, err := db.ExecContext(b.Context(), "UPDATE floor SET n = n + 1, v = ? WHERE k = 'k'", value); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("GET_LOCK", func(b *testing.B) { // it is not durable, and ends with the connection
		c, err := db.Conn(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		defer c.Close()
		for b.Loop() {
			for _, q := range []string{"DO GET_LOCK('m', 1)", "DO RELEASE_LOCK('m')"} {
				if _, err := c.ExecContext(b.Context(), q); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("holdfast", func(b *testing.B) {
		m := newClient(b, db).Mutex("m")
		for b.Loop() {
			lease, err := m.Lock(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if err := lease.Release(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// Two clients, each on an engine of its own, take turns. An iteration is a turn.
func BenchmarkHandOff(b *testing.B) {
	db := open(b, syncedDatabase(b))
	ctx, cancel := context.WithCancel(b.Context())
	turns, ended := make(chan struct{}), make(chan struct{})
	for range 2 {
		m := newClient(b, db).Mutex("m")
		go func() {
			defer func() { ended <- struct{}{} }()
			for ctx.Err() == nil {
				_ = m.Do(ctx, func(context.Context) error { // it fails when ctx ends
					select {
					case turns <- struct{}{}:
					case <-ctx.Done():
					}
					return nil
				})
			}
		}()
	}
	for b.Loop() {
		<-turns
	}
	cancel()
	<-ended
	<-ended
}
