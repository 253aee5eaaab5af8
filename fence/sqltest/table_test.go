package sqltest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fence"
)

// Several nodes start at once.
func TestEnsureTable(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		for i := range 5 {
			name := fmt.Sprint("fence_", i)
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					if err := fence.NewSQL(db.dialect, fence.WithTable(name)).EnsureTable(t.Context(), db.DB); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
	})
}

func TestEnsureTableFails(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		g := fence.NewSQL(db.dialect, fence.WithTable("nowhere.fence"))
		if err := g.EnsureTable(t.Context(), db.DB); err == nil {
			t.Fatal("made a table in a schema that does not exist")
		}
		if err := g.Do(t.Context(), db.DB, stock, 1, nil); err == nil || errors.Is(err, fence.ErrStale) {
			t.Fatalf("claimed in a table that does not exist: %v", err)
		}
	})
}

func TestForget(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		for _, name := range []string{"old", "young"} {
			requireNil(t, db.claim(t, name, 5))
		}
		age := map[fence.Dialect]string{
			fence.PostgreSQL: "CURRENT_TIMESTAMP - INTERVAL '2 hours'",
			fence.MySQL:      "CURRENT_TIMESTAMP - INTERVAL 2 HOUR",
			fence.SQLite:     "datetime('now', '-2 hours')",
		}[db.dialect]
		db.exec(t, "UPDATE holdfast_fence SET claimed_at = "+age)
		requireStale(t, db.claim(t, "young", 4), 4, 5)
		requireNil(t, db.claim(t, "young", 5)) // contact
		if n, err := db.guard.Forget(t.Context(), db.DB, 3*time.Hour); n != 0 || err != nil {
			t.Fatalf("forgot %d, %v", n, err)
		}
		if n, err := db.guard.Forget(t.Context(), db.DB, time.Hour); n != 1 || err != nil {
			t.Fatalf("forgot %d, %v", n, err)
		}
		requireNil(t, db.claim(t, "old", 1))
		requireStale(t, db.claim(t, "young", 4), 4, 5)
		_, err := db.guard.Forget(t.Context(), db.DB, time.Second)
		requireIs(t, err, fence.ErrInvalid)
	})
}

func TestQuotedNames(t *testing.T) {
	onEach(t, func(t *testing.T, db store) {
		quote := `"`
		if db.dialect == fence.MySQL {
			quote = "`"
		}
		quoted := func(s string) string { return quote + s + quote }
		g := fence.NewSQL(db.dialect, fence.WithTable(quoted("My Fences")))
		requireNil(t, g.EnsureTable(t.Context(), db.DB))
		tx := db.begin(t)
		requireNil(t, g.Claim(t.Context(), tx, stock, 1))
		requireNil(t, tx.Commit())

		db.exec(t, "CREATE TABLE "+quoted("order")+" (id INTEGER PRIMARY KEY, "+quoted("Key")+" BIGINT, amount INTEGER)")
		db.exec(t, "INSERT INTO "+quoted("order")+" (id, amount) VALUES (1, 1)")
		row := fence.Row{Table: quoted("order"), Key: map[string]any{"id": 1}, Column: quoted("Key")}
		requireNil(t, db.update(t, row, 2, "amount = amount + ?", 1))
		requireStale(t, db.update(t, row, 1, "amount = amount + ?", 1), 1, 2)
	})
}

func TestNamesAreChecked(t *testing.T) {
	db := openSQLite(t)
	bad := []string{"", "a b", "a;", "a--", `a"b`, "a'b", "1a", "a.b.c", "a.", ".a", "ä", `""`, `"a"b"`, "`a`", strings.Repeat("a", 65)}
	for _, name := range bad {
		g := fence.NewSQL(fence.SQLite, fence.WithTable(name))
		if err := g.EnsureTable(t.Context(), db.DB); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("table %q: %v", name, err)
		}
		tx := db.begin(t)
		rows := []fence.Row{{Table: name, Key: map[string]any{"id": 1}}, {Table: "a", Key: map[string]any{name: 1}}}
		if name != "" { // which is the default
			rows = append(rows, fence.Row{Table: "a", Key: map[string]any{"id": 1}, Column: name})
		}
		for _, row := range rows {
			if err := db.guard.ClaimRow(t.Context(), tx, row, 1); !errors.Is(err, fence.ErrInvalid) {
				t.Errorf("%+v: %v", row, err)
			}
		}
		if _, err := db.guard.Guard(name, 1); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("column %q: %v", name, err)
		}
		requireNil(t, tx.Rollback())
	}
	tx := db.begin(t)
	requireIs(t, db.guard.ClaimRow(t.Context(), tx, fence.Row{Table: "a"}, 1), fence.ErrInvalid)
	requireIs(t, fence.NewSQL(0).Claim(t.Context(), tx, stock, 1), fence.ErrInvalid)
	requireIs(t, fence.NewSQL(fence.SQLite, nil).Claim(t.Context(), tx, stock, 1), fence.ErrInvalid)
	_, err := db.guard.Guard("fence", 0)
	requireIs(t, err, fence.ErrInvalid)
}
