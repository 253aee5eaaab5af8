package sqltest

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
)

// article is the row of the tests.
func article(id int) fence.Row { return fence.Row{Table: "article", Key: map[string]any{"id": id}} }

func (s store) createArticle(t *testing.T, amount int) {
	t.Helper()
	s.exec(t, "CREATE TABLE article (id INTEGER PRIMARY KEY, shop INTEGER, amount INTEGER NOT NULL, fence BIGINT NULL)")
	s.exec(t, "INSERT INTO article (id, shop, amount) VALUES (42, 1, ?)", amount)
	s.exec(t, "INSERT INTO article (id, shop, amount) VALUES (43, 1, ?)", amount)
}

func amount(t *testing.T, tx interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) int {
	t.Helper()
	var n int
	requireNil(t, tx.QueryRowContext(t.Context(), "SELECT amount FROM article WHERE id = 42").Scan(&n))
	return n
}

// within runs f in a transaction and commits it, unless f fails.
func (s store) within(t *testing.T, f func(tx *sql.Tx) error) error {
	t.Helper()
	tx := s.begin(t)
	if err := f(tx); err != nil {
		requireNil(t, tx.Rollback())
		return err
	}
	return tx.Commit()
}

func (s store) update(t *testing.T, row fence.Row, token uint64, set string, args ...any) error {
	t.Helper()
	return s.within(t, func(tx *sql.Tx) error {
		return s.guard.Update(t.Context(), tx, row, token, s.q(set), args...)
	})
}

func (s store) claimRow(t *testing.T, row fence.Row, token uint64) error {
	t.Helper()
	return s.within(t, func(tx *sql.Tx) error { return s.guard.ClaimRow(t.Context(), tx, row, token) })
}

// A row that was deleted and made anew knows no token, unless it was made with one.
func TestRowMadeAnew(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		db.createArticle(t, 10)
		requireNil(t, db.claimRow(t, article(42), 8))
		requireStale(t, db.claimRow(t, article(42), 7), 7, 8)
		db.exec(t, "DELETE FROM article WHERE id = 42")
		db.exec(t, "INSERT INTO article (id, shop, amount) VALUES (42, 1, 5)")
		requireNil(t, db.claimRow(t, article(42), 7))

		db.exec(t, "DELETE FROM article WHERE id = 42")
		db.exec(t, "INSERT INTO article (id, shop, amount, fence) VALUES (42, 1, 5, ?)", 9)
		requireStale(t, db.claimRow(t, article(42), 8), 8, 9)

		requireNil(t, db.claim(t, "article:42", 8)) // in the table of tokens
		db.exec(t, "DELETE FROM article WHERE id = 42")
		requireStale(t, db.claim(t, "article:42", 7), 7, 8)
	})
}

func TestRowOrder(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		db.createArticle(t, 10)
		requireNil(t, db.update(t, article(42), 7, "amount = amount - ?", 3)) // from NULL
		requireNil(t, db.update(t, article(42), 7, "amount = amount - ?", 1)) // the same holder again
		requireStale(t, db.update(t, article(42), 6, "amount = ?", 0), 6, 7)
		requireNil(t, db.update(t, article(42), 8, "amount = amount - ?", 1))
		requireNil(t, db.update(t, article(42), 8, "amount = amount")) // nothing to change
		requireNil(t, db.claimRow(t, article(42), 8))
		requireNil(t, db.claimRow(t, article(42), 9))
		requireStale(t, db.claimRow(t, article(42), 8), 8, 9)
		requireIs(t, db.update(t, article(1), 9, "amount = ?", 0), sql.ErrNoRows)
		requireIs(t, db.claimRow(t, article(1), 9), sql.ErrNoRows)
		requireIs(t, db.claimRow(t, article(42), 0), fence.ErrToken)
		if n := amount(t, db); n != 5 {
			t.Fatalf("the amount is %d, want 5", n)
		}
		requireNil(t, db.claimRow(t, article(43), 1)) // rows are apart
	})
}

func TestRowKeys(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		db.createArticle(t, 10)
		both := fence.Row{Table: "article", Key: map[string]any{"id": 42, "shop": 1}}
		requireNil(t, db.update(t, both, 3, "amount = ?, shop = ?", 4, 1))
		requireStale(t, db.update(t, both, 2, "amount = ?", 0), 2, 3)
		both.Key["shop"] = 2
		requireIs(t, db.update(t, both, 3, "amount = ?", 0), sql.ErrNoRows)
		several := fence.Row{Table: "article", Key: map[string]any{"shop": 1}}
		requireIs(t, db.update(t, several, 9, "amount = ?", 0), fence.ErrInvalid)
		if n := amount(t, db); n != 4 {
			t.Fatalf("the amount is %d, want 4", n)
		}
	})
}

func TestRowRollback(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		db.createArticle(t, 10)
		tx := db.begin(t)
		requireNil(t, db.guard.Update(t.Context(), tx, article(42), 9, "amount = 0"))
		requireNil(t, tx.Rollback())
		requireNil(t, db.update(t, article(42), 1, "amount = amount - 1"))
	})
}

func TestExec(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		db.createArticle(t, 10)
		take := func(id, n int, token uint64) (int64, error) {
			cond, err := db.guard.Guard("fence", 5)
			requireNil(t, err)
			query := db.q("UPDATE article SET amount = amount - ?, fence = ? WHERE id = ? AND amount >= ? AND ") + cond
			var rows int64
			err = db.within(t, func(tx *sql.Tx) error {
				res, err := db.guard.Exec(t.Context(), tx, article(id), token, query, n, int64(token), id, n, int64(token))
				if err != nil {
					return err
				}
				rows, err = res.RowsAffected()
				return err
			})
			return rows, err
		}
		if n, err := take(42, 3, 5); n != 1 || err != nil {
			t.Fatalf("%d rows, %v", n, err)
		}
		if n, err := take(42, 8, 6); n != 0 || err != nil { // not enough there
			t.Fatalf("%d rows, %v", n, err)
		}
		_, err := take(42, 3, 4)
		requireStale(t, err, 4, 5)
		_, err = take(1, 3, 6)
		requireIs(t, err, sql.ErrNoRows)
	})
}

// Two holders read, and then both write in the order of their tokens. A token
// that is looked at on writes only lets both pass, and one update is lost.
func TestWriteOnlyFenceLosesAnUpdate(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		db.createArticle(t, 10)
		first := amount(t, db)  // holder 1, then paused past its lease
		second := amount(t, db) // holder 2
		requireNil(t, db.update(t, article(42), 1, "amount = ?", first-1))
		requireNil(t, db.update(t, article(42), 2, "amount = ?", second-1))
		if n := amount(t, db); n != 9 {
			t.Fatalf("%d: this is to show the hole, which is 9 after two updates", n)
		}
	})
}

func TestClaimOnFirstContactIsExact(t *testing.T) {
	forms := map[string]func(db store, tx *sql.Tx, token uint64) error{
		"Claim":    func(db store, tx *sql.Tx, n uint64) error { return db.guard.Claim(t.Context(), tx, stock, n) },
		"ClaimRow": func(db store, tx *sql.Tx, n uint64) error { return db.guard.ClaimRow(t.Context(), tx, article(42), n) },
	}
	for name, claim := range forms {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, db store) {
				db.createArticle(t, 10)
				read := func(token uint64) (n int) {
					requireNil(t, db.within(t, func(tx *sql.Tx) error {
						if err := claim(db, tx, token); err != nil {
							return err
						}
						n = amount(t, tx)
						return nil
					}))
					return n
				}
				write := func(token uint64, n int) error {
					return db.within(t, func(tx *sql.Tx) error {
						if err := claim(db, tx, token); err != nil {
							return err
						}
						_, err := tx.ExecContext(t.Context(), db.q("UPDATE article SET amount = ? WHERE id = 42"), n)
						return err
					})
				}
				first := read(1) // then paused past its lease
				second := read(2)
				requireStale(t, write(1, first-1), 1, 2)
				requireNil(t, write(2, second-1))
				// The first got an error, and writes again with a new lease.
				requireNil(t, write(3, read(3)-1))
				if n := amount(t, db); n != 8 {
					t.Fatalf("%d after two updates of 10", n)
				}
			})
		})
	}
}

func TestRowConcurrentCounting(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		db.createArticle(t, 0)
		turn := func(ctx context.Context, token uint64) error {
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := db.guard.ClaimRow(ctx, tx, article(42), token); err != nil {
				return err
			}
			var n int
			if err := tx.QueryRowContext(ctx, "SELECT amount FROM article WHERE id = 42").Scan(&n); err != nil {
				return err
			}
			if err := db.guard.Update(ctx, tx, article(42), token, db.q("amount = ?"), n+1); err != nil {
				return err
			}
			return tx.Commit()
		}
		var tokens, accepted atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 25 {
					token := uint64(tokens.Add(1)) + rand.Uint64N(4)
					switch err := turn(t.Context(), token); {
					case err == nil:
						accepted.Add(1)
					case !errors.Is(err, fence.ErrStale):
						t.Errorf("token %d: %v", token, err)
					}
				}
			})
		}
		all.Wait()
		if n := amount(t, db); int64(n) != accepted.Load() || n == 0 {
			t.Fatalf("counted to %d with %d accepted updates", n, accepted.Load())
		}
	})
}

func TestClaimRowLocksUntilCommit(t *testing.T) {
	for _, openStore := range []func(*testing.T) store{openPostgres, openMaria} {
		db := openStore(t)
		t.Run(db.dialect.String(), func(t *testing.T) {
			db.createArticle(t, 10)
			requireNil(t, db.claimRow(t, article(42), 5))
			tx := db.begin(t)
			requireNil(t, db.guard.ClaimRow(t.Context(), tx, article(42), 5)) // which changes nothing
			requireBlocked(t, db, func(ctx context.Context, tx *sql.Tx) error {
				return db.guard.ClaimRow(ctx, tx, article(42), 6)
			})
			requireNil(t, tx.Commit())
			requireNil(t, db.claimRow(t, article(42), 6))
		})
	}
}
