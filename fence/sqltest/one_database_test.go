package sqltest

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/mysql"
	pgengine "github.com/holdfast-go/holdfast/engine/postgres"
)

// onOne runs a test with the locks and the data in one database.
func onOne(t *testing.T, test func(t *testing.T, db store)) {
	for _, openStore := range []func(*testing.T) store{openPostgres, openMaria} {
		db := openStore(t)
		t.Run(db.dialect.String(), func(t *testing.T) {
			e, stop, err := openEngine(t.Context(), db.driver, db.dsn, db.DB)
			requireNil(t, err)
			defer stop()
			requireNil(t, migrate(t.Context(), e, db))
			test(t, db)
		})
	}
}

// openEngine returns an engine in the database of the data.
func openEngine(ctx context.Context, driver, dsn string, db *sql.DB) (e engine.Engine, stop func(), err error) {
	if driver == "mysql" {
		return mysql.New(db), func() {}, nil
	}
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		return nil, nil, err
	}
	return pgengine.New(pool), pool.Close, nil
}

func migrate(ctx context.Context, e engine.Engine, db store) error {
	if _, ok := e.(*mysql.Engine); ok {
		return mysql.Migrate(ctx, db.DB)
	}
	_, err := db.ExecContext(ctx, pgengine.Schema())
	return err
}

// newClient is a client of another process, with the locks in the database of the store.
func (s store) newClient(t *testing.T) *holdfast.Client {
	t.Helper()
	e, stop, err := openEngine(context.Background(), s.driver, s.dsn, s.DB)
	requireNil(t, err)
	t.Cleanup(stop)
	c, err := holdfast.New(e)
	requireNil(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (s store) lock(t *testing.T, opts ...holdfast.LockOption) *holdfast.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lease, err := s.newClient(t).Mutex(stock, opts...).Lock(ctx)
	requireNil(t, err)
	return lease
}

// sellAs sells one, in a transaction that claims first.
func (s store) sellAs(t *testing.T, lease *holdfast.Lease) error {
	return s.guard.Do(t.Context(), s.DB, stock, lease.Token(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(t.Context(), "UPDATE article SET amount = amount - 1 WHERE id = 42")
		return err
	})
}

// A holder has written in its transaction when its lease ends. After the claim of the next
// holder it cannot commit, however late its own claim is.
func TestStaleHolderCannotCommit(t *testing.T) {
	onOne(t, func(t *testing.T, db store) {
		db.createArticle(t, 10)
		db.exec(t, "CREATE TABLE log (token BIGINT NOT NULL)")
		ends := map[string]func(stale *holdfast.Lease){
			"expiry": func(*holdfast.Lease) {}, // the next one waits for it
			"break": func(stale *holdfast.Lease) {
				requireNil(t, db.newClient(t).Break(t.Context(), stock, stale.HolderID(), holdfast.Force()))
			},
		}
		for name, end := range ends {
			t.Run(name, func(t *testing.T) {
				before := amount(t, db)
				stale := db.lock(t, holdfast.WithTTL(time.Second), holdfast.WithoutRenewal())
				tx := db.begin(t)
				_, err := tx.ExecContext(t.Context(), db.q("INSERT INTO log (token) VALUES (?)"), int64(stale.Token()))
				requireNil(t, err)
				end(stale)
				next := db.lock(t)
				requireNil(t, db.sellAs(t, next))
				requireStale(t, db.guard.ClaimAll(t.Context(), tx, stale.Tokens()), stale.Token(), next.Token())
				requireNil(t, tx.Rollback())
				var logged int
				requireNil(t, db.QueryRow("SELECT COUNT(*) FROM log").Scan(&logged))
				if n := amount(t, db); logged != 0 || n != before-1 {
					t.Errorf("%d in the log and the amount is %d, want 0 and %d", logged, n, before-1)
				}
				requireNil(t, next.Release(t.Context()))
			})
		}
	})
}

// A holder that claims in one transaction and writes in another is not protected: the next
// holder may have claimed in between, so the second transaction must claim as well.
func TestClaimApartFromTheWrite(t *testing.T) {
	onOne(t, func(t *testing.T, db store) {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprint("claims again ", again), func(t *testing.T) {
				db.exec(t, "DROP TABLE IF EXISTS article")
				db.createArticle(t, 10)
				stale := db.lock(t, holdfast.WithTTL(300*time.Millisecond), holdfast.WithoutRenewal())
				requireNil(t, db.claim(t, stock, stale.Token()))
				seen := amount(t, db)
				next := db.lock(t)
				requireNil(t, db.sellAs(t, next))
				tx := db.begin(t)
				if again {
					requireStale(t, db.guard.Claim(t.Context(), tx, stock, stale.Token()), stale.Token(), next.Token())
					return
				}
				_, err := tx.ExecContext(t.Context(), db.q("UPDATE article SET amount = ? WHERE id = 42"), seen-1)
				requireNil(t, err)
				requireNil(t, tx.Commit())
				if n := amount(t, db); n != 9 {
					t.Errorf("the amount is %d after two sales: this write should have been lost", n)
				}
			})
		}
	})
}

// A holder is paused in its transaction, so the claim of the next one waits, until the server
// ends the session that idles. Then the paused one cannot commit.
func TestServerEndsATransactionThatIdles(t *testing.T) {
	onOne(t, func(t *testing.T, db store) {
		db.createArticle(t, 10)
		paused := db.lock(t, holdfast.WithTTL(300*time.Millisecond), holdfast.WithoutRenewal())
		tx := db.begin(t)
		requireNil(t, db.guard.Claim(t.Context(), tx, stock, paused.Token()))
		_, err := tx.ExecContext(t.Context(), "UPDATE article SET amount = 0 WHERE id = 42")
		requireNil(t, err)
		timeout := "SET idle_in_transaction_session_timeout = '1s'"
		if db.driver == "mysql" {
			timeout = "SET wait_timeout = 1"
		}
		_, err = tx.ExecContext(t.Context(), timeout)
		requireNil(t, err)

		requireNil(t, db.sellAs(t, db.lock(t)))
		if err := tx.Commit(); err == nil {
			t.Error("committed after the claim of the next holder")
		}
		if n := amount(t, db); n != 9 {
			t.Errorf("the amount is %d, want 9", n)
		}
	})
}
