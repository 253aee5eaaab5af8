package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/fence"
)

const stock = "stock:42"

func TestOrder(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		requireNil(t, db.claim(t, stock, 7))
		requireNil(t, db.claim(t, stock, 7)) // the same holder again
		requireStale(t, db.claim(t, stock, 6), 6, 7)
		requireNil(t, db.claim(t, stock, fence.MaxToken-1))
		requireNil(t, db.claim(t, stock, fence.MaxToken))
		requireStale(t, db.claim(t, stock, fence.MaxToken-1), fence.MaxToken-1, fence.MaxToken)
		requireIs(t, db.claim(t, stock, 0), fence.ErrToken)
		requireIs(t, db.claim(t, stock, fence.MaxToken+1), fence.ErrToken)
		// Names are compared byte by byte.
		for i, name := range []string{"a", "A", "a ", "ä", "a\u0308", "'; --"} {
			requireNil(t, db.claim(t, name, uint64(10-i)))
		}
		requireIs(t, db.claim(t, "", 1), fence.ErrInvalid)
		requireIs(t, db.claim(t, "a\x00", 1), fence.ErrInvalid)
	})
}

func TestWithinOneTransaction(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		tx := db.begin(t)
		for _, token := range []uint64{5, 5, 8, 8} {
			requireNil(t, db.guard.Claim(t.Context(), tx, stock, token))
		}
		requireStale(t, db.guard.Claim(t.Context(), tx, stock, 7), 7, 8)
		requireNil(t, db.guard.Claim(t.Context(), tx, stock, 8)) // nothing was broken
		requireNil(t, tx.Commit())
		requireStale(t, db.claim(t, stock, 7), 7, 8)
	})
}

func TestRollbackTakesTheClaimBack(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		requireNil(t, db.claim(t, stock, 3))
		tx := db.begin(t)
		requireNil(t, db.guard.Claim(t.Context(), tx, stock, 9))
		requireNil(t, db.guard.Claim(t.Context(), tx, "new", 9))
		requireNil(t, tx.Rollback())
		requireNil(t, db.claim(t, stock, 4))
		requireNil(t, db.claim(t, "new", 1))
		requireStale(t, db.claim(t, stock, 3), 3, 4)
	})
}

func TestDo(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		mine := errors.New("mine")
		requireIs(t, db.guard.Do(t.Context(), db.DB, stock, 9, func(*sql.Tx) error { return mine }), mine)
		func() {
			defer func() { _ = recover() }()
			_ = db.guard.Do(t.Context(), db.DB, stock, 9, func(*sql.Tx) error { panic("mine") })
		}()
		requireNil(t, db.claim(t, stock, 2)) // neither claim stayed, nor a lock
		ran := false
		err := db.guard.Do(t.Context(), db.DB, stock, 1, func(*sql.Tx) error { ran = true; return nil })
		requireStale(t, err, 1, 2)
		if ran {
			t.Fatal("ran with a stale token")
		}
	})
}

func TestClaimLocksUntilCommit(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		for _, resource := range []string{"known", "unknown"} {
			if resource == "known" {
				requireNil(t, db.claim(t, resource, 1))
			}
			tx := db.begin(t)
			requireNil(t, db.guard.Claim(t.Context(), tx, resource, 5))
			for _, token := range []uint64{4, 5, 6} {
				requireBlocked(t, db, func(ctx context.Context, tx *sql.Tx) error {
					if db.dialect == fence.SQLite {
						if _, err := tx.ExecContext(ctx, "PRAGMA busy_timeout = 50"); err != nil {
							return err
						}
						defer tx.ExecContext(context.Background(), "PRAGMA busy_timeout = 20000")
					}
					return db.guard.Claim(ctx, tx, resource, token)
				})
			}
			requireNil(t, tx.Commit())
			requireStale(t, db.claim(t, resource, 4), 4, 5)
			requireNil(t, db.claim(t, resource, 6))
		}
	})
}

// What is read before the claim may be old afterwards: the databases differ in
// whether they say so. Claim first.
func TestReadBeforeTheClaim(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		db.createArticle(t, 10)
		tx := db.begin(t)
		_ = amount(t, tx)
		requireNil(t, db.guard.Do(t.Context(), db.DB, stock, 1, func(tx *sql.Tx) error {
			_, err := tx.ExecContext(t.Context(), "UPDATE article SET amount = 9 WHERE id = 42")
			return err
		}))
		err := db.guard.Claim(t.Context(), tx, stock, 2)
		switch {
		case db.dialect == fence.SQLite && err == nil:
			t.Fatal("SQLite let a transaction write that had read what is old")
		case db.dialect == fence.PostgreSQL && (err != nil || amount(t, tx) != 9):
			t.Fatalf("PostgreSQL reads what is committed: %v", err)
		case db.dialect == fence.MySQL && err == nil && amount(t, tx) != 10:
			t.Fatal("MariaDB reads anew: the warning in the docs is not needed any more")
		}
	})
}

func TestClaimAll(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		var all sync.WaitGroup
		for i := range uint64(8) {
			all.Go(func() {
				for j := range uint64(10) {
					tx, err := db.BeginTx(t.Context(), nil)
					if err != nil {
						t.Error(err)
						return
					}
					n := 10*j + i + 1
					err = db.guard.ClaimAll(t.Context(), tx, map[string]uint64{"a": n, "b": n, "c": n, "d": n})
					if err == nil {
						err = tx.Commit()
					}
					_ = tx.Rollback()
					if err != nil && !errors.Is(err, fence.ErrStale) {
						t.Errorf("token %d: %v", n, err)
					}
				}
			})
		}
		all.Wait()
		for _, name := range []string{"a", "b", "c", "d"} {
			requireStale(t, db.claim(t, name, 1), 1, 98)
		}
	})
}

func TestConn(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		ctx := t.Context()
		conn, err := db.Conn(ctx)
		requireNil(t, err)
		defer conn.Close()
		for _, statement := range []string{"BEGIN", "ROLLBACK", "BEGIN", "COMMIT"} {
			_, err := conn.ExecContext(ctx, statement)
			requireNil(t, err)
			if statement == "BEGIN" {
				requireNil(t, db.guard.Claim(ctx, conn, stock, 5))
			}
			if statement == "ROLLBACK" {
				requireNil(t, db.claim(t, stock, 1))
			}
		}
		requireStale(t, db.claim(t, stock, 4), 4, 5)
		requireIs(t, db.guard.Claim(ctx, db.DB, stock, 5), fence.ErrInvalid)
		requireIs(t, db.guard.Claim(ctx, nil, stock, 5), fence.ErrInvalid)
	})
}

// Holders that do not wait for each other, with tokens late and doubtful, some
// of which give up: what is committed is in the order of tokens, and each reads
// what the one before it wrote.
func TestConcurrentHolders(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		t.Run("default", func(t *testing.T) { race(t, db, nil) })
		if db.dialect != fence.SQLite {
			t.Run("serializable", func(t *testing.T) { race(t, db, &sql.TxOptions{Isolation: sql.LevelSerializable}) })
		}
		if db.dialect == fence.PostgreSQL {
			t.Run("repeatable read", func(t *testing.T) { race(t, db, &sql.TxOptions{Isolation: sql.LevelRepeatableRead}) })
		}
	})
}

func race(t *testing.T, db store, opts *sql.TxOptions) {
	db.exec(t, "DROP TABLE IF EXISTS log")
	db.exec(t, "CREATE TABLE log (seq INTEGER PRIMARY KEY, token BIGINT NOT NULL)")
	resource := t.Name() // not known yet, so that the first claims meet in an insert
	errRollback := errors.New("rolled back on purpose")
	log := func(ctx context.Context, tx *sql.Tx, token uint64) error {
		var count int
		if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM log").Scan(&count); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, db.q("INSERT INTO log (seq, token) VALUES (?, ?)"), count+1, int64(token)); err != nil {
			return err
		}
		if rand.IntN(5) == 0 {
			return errRollback
		}
		return nil
	}
	turn := func(ctx context.Context, token uint64) error {
		if opts == nil {
			return db.guard.Do(ctx, db.DB, resource, token, func(tx *sql.Tx) error { return log(ctx, tx, token) })
		}
		tx, err := db.BeginTx(ctx, opts)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := db.guard.Claim(ctx, tx, resource, token); err != nil {
			return err
		}
		if err := log(ctx, tx, token); err != nil {
			return err
		}
		return tx.Commit()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	var tokens, accepted, refused, ended atomic.Uint64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 40 {
				token := tokens.Add(1) + rand.Uint64N(6)
				switch err := turn(ctx, token); {
				case err == nil:
					accepted.Add(1)
				case errors.Is(err, fence.ErrStale):
					refused.Add(1)
				case errors.Is(err, errRollback):
				case opts != nil && aborted(err):
					ended.Add(1) // by the database, which may do so above its default
				default:
					t.Errorf("token %d: %v", token, err)
				}
			}
		})
	}
	all.Wait()
	rows, err := db.QueryContext(ctx, "SELECT token FROM log ORDER BY seq")
	requireNil(t, err)
	defer rows.Close()
	var last, n uint64
	for rows.Next() {
		var token uint64
		requireNil(t, rows.Scan(&token))
		if token < last {
			t.Fatalf("token %d was committed after %d", token, last)
		}
		last, n = token, n+1
	}
	requireNil(t, rows.Err())
	if n != accepted.Load() || n == 0 {
		t.Fatalf("%d in the log, %d accepted", n, accepted.Load())
	}
	t.Logf("%d accepted, %d refused, %d ended by the database", n, refused.Load(), ended.Load())
}

// aborted reports whether the database has aborted a transaction, which may be repeated.
func aborted(err error) bool {
	var pg *pgconn.PgError
	var my *mysql.MySQLError
	switch {
	case errors.As(err, &pg):
		return slices.Contains([]string{"40001", "40P01"}, pg.Code)
	case errors.As(err, &my):
		return slices.Contains([]uint16{1213, 1205, 1020}, my.Number)
	}
	return false
}
