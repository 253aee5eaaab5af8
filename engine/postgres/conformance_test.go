package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
	"github.com/holdfast-go/holdfast/engine/enginetest"
)

func TestStore(t *testing.T) {
	pool := newTable(t, shared.Get(t))
	castest.Run(t, func(t testing.TB) cas.DocumentStore { return newStore(t, pool) })
}

func TestStoreVariants(t *testing.T) {
	for name, v := range map[string]struct {
		dsn    string // added
		change func(*pgxpool.Config)
		opts   []Option
	}{
		"Serializable":   {dsn: "&default_transaction_isolation=serializable"},
		"RepeatableRead": {dsn: "&default_transaction_isolation=repeatable%20read"},
		"Relaxed":        {opts: []Option{WithRelaxed()}},
		"OtherSchema":    {opts: []Option{WithSchema(`other "schema"`)}},
		"WithoutListen":  {opts: []Option{WithoutListen()}},
		"Unprepared":     {change: func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := shared.Get(t)
			dsn := s.DSN(newDatabase(t, s)) + v.dsn
			if v.change == nil {
				v.change = func(*pgxpool.Config) {}
			}
			pool := newPool(t, dsn, v.change)
			exec(t, pool, `CREATE SCHEMA "other ""schema"""`)
			requireNil(t, Migrate(t.Context(), pool, v.opts...))
			castest.Run(t, func(t testing.TB) cas.DocumentStore { return newStore(t, pool, v.opts...) })
		})
	}
}

func TestConformance(t *testing.T) {
	e := newEngine(t, newTable(t, shared.Get(t)))
	enginetest.Run(t, func(testing.TB) engine.Engine { return e }, enginetest.Estimates())
}
