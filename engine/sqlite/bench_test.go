package sqlite_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/storetest"
)

// What an uncontended Lock and Release cost, beside two bare transactions on the same file.
func BenchmarkPair(b *testing.B) {
	b.Run("floor/NORMAL", func(b *testing.B) { bareCommits(b, "_pragma=synchronous(1)") })
	b.Run("floor/FULL", func(b *testing.B) { bareCommits(b, "_pragma=synchronous(2)") })
	b.Run("holdfast", func(b *testing.B) {
		c := storetest.New(b, openEngine, newFile(b)).Client(b)
		for b.Loop() {
			lease, err := c.Mutex("m").Lock(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if err := lease.Release(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// bareCommits changes one small row in two transactions an iteration.
func bareCommits(b *testing.B, parameters string) {
	db := open(b, newFile(b), parameters)
	if _, err := db.Exec("CREATE TABLE floor (k BLOB PRIMARY KEY, v BLOB); INSERT INTO floor VALUES (X'00', X'00')"); err != nil {
		b.Fatal(err)
	}
	value := make([]byte, 200)
	change := func() error {
		binary.BigEndian.PutUint64(value, binary.BigEndian.Uint64(value)+1) // SQLite writes no row that stays as it was
		c, err := db.Conn(b.Context())
		if err != nil {
			return err
		}
		defer c.Close()
		for _, q := range []string{"BEGIN IMMEDIATE", "UPDATE floor SET v = ? WHERE k = X'00'", "COMMIT"} {
			args := []any{value}
			if q[0] != 'U' {
				args = nil
			}
			if _, err := c.ExecContext(b.Context(), q, args...); err != nil {
				return err
			}
		}
		return nil
	}
	for b.Loop() {
		for range 2 {
			if err := change(); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// How long a lease takes from the release in one process to the waiter in another.
func BenchmarkHandOff(b *testing.B) {
	s := storetest.New(b, openEngine, newFile(b))
	workers := []*storetest.Worker{s.Start(b, storetest.Turns), s.Start(b, storetest.Turns)}
	s.AwaitTurns(b, 10)
	for b.Loop() {
		s.AwaitTurns(b, len(s.Tokens(b)))
	}
	from, began := len(s.Tokens(b)), time.Now()
	<-time.After(time.Second)
	b.ReportMetric(float64(len(s.Tokens(b))-from)/time.Since(began).Seconds(), "turns/s")
	for _, w := range workers {
		w.Stop()
	}
}

// The CPU time of clients that wait for a lease that another one keeps, each with an engine of its own as if
// it were a process. An iteration is a second of it.
func BenchmarkIdleWaiters(b *testing.B) {
	for _, n := range []int{1, 50} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := storetest.New(b, openEngine, newFile(b))
			if _, err := s.Client(b).Mutex("m").Lock(b.Context()); err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan struct{})
			for range n {
				go func() {
					_, _ = s.Client(b).Mutex("m").Lock(ctx) // it ends with ctx
					ended <- struct{}{}
				}()
			}
			<-time.After(2 * time.Second)
			before := cpu(b)
			for b.Loop() {
				<-time.After(time.Second)
			}
			b.ReportMetric(float64((cpu(b)-before).Milliseconds())/b.Elapsed().Seconds(), "cpu-ms/s")
			cancel()
			for range n {
				<-ended
			}
		})
	}
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
