package sqltest

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fence"
)

// MariaDB ends all but one of those who wait for the first claim of a resource
// when that is rolled back; Do claims again.
func TestFirstClaimRolledBackUnderWaiters(t *testing.T) {
	for _, openStore := range []func(*testing.T) store{openPostgres, openMaria} {
		db := openStore(t)
		t.Run(db.dialect.String(), func(t *testing.T) {
			const waiters = 6
			first := db.begin(t)
			requireNil(t, db.guard.Claim(t.Context(), first, stock, 1))
			ended := make(chan error, waiters)
			for range waiters {
				go func() {
					ended <- db.guard.Do(t.Context(), db.DB, stock, 2, func(*sql.Tx) error { return nil })
				}()
			}
			db.awaitWaiters(t, waiters)
			requireNil(t, first.Rollback())
			for range waiters {
				requireNil(t, <-ended)
			}
		})
	}
}

// awaitWaiters returns when so many transactions wait for a lock.
func (s store) awaitWaiters(t *testing.T, n int) {
	t.Helper()
	query := "SELECT COUNT(*) FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"
	if s.dialect == fence.PostgreSQL {
		query = "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
	}
	look := time.NewTicker(150 * time.Millisecond) // if queried more often, MariaDB returns the old answer
	defer look.Stop()
	for range 100 {
		var got int
		requireNil(t, s.QueryRowContext(t.Context(), query).Scan(&got))
		if got >= n {
			return
		}
		<-look.C
	}
	t.Fatalf("%d transactions should wait", n)
}

// A transaction that has read before it claims sees an old token, or none of
// what happened since. The claim must look at what there is.
func TestStaleClaimInAnOldSnapshot(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		db.createArticle(t, 10)
		requireNil(t, db.claim(t, stock, 5))
		requireNil(t, db.claimRow(t, article(42), 5))
		forms := map[string]func(tx *sql.Tx) error{
			"Claim":    func(tx *sql.Tx) error { return db.guard.Claim(t.Context(), tx, stock, 5) },
			"ClaimRow": func(tx *sql.Tx) error { return db.guard.ClaimRow(t.Context(), tx, article(42), 5) },
			"Update": func(tx *sql.Tx) error {
				return db.guard.Update(t.Context(), tx, article(42), 5, "amount = amount - 1")
			},
		}
		old := map[string]*sql.Tx{}
		for name := range forms {
			old[name] = db.begin(t)
			_ = amount(t, old[name])
		}
		requireNil(t, db.claim(t, stock, 7))
		requireNil(t, db.claimRow(t, article(42), 7))
		for name, claim := range forms {
			err := claim(old[name])
			if err == nil || db.dialect != fence.SQLite && !errors.Is(err, fence.ErrStale) {
				t.Errorf("%s with an old token: %v", name, err)
			}
			requireNil(t, old[name].Rollback())
		}
	})
}
