package postgres

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/storetest"
)

// Behind PgBouncer 1.18, whose prepared statements and notifications get lost in transaction mode,
// the engine notices both by itself.
func TestBehindPgBouncer(t *testing.T) {
	t.Parallel()
	server := shared.Get(t)
	for name, v := range map[string]struct {
		mode, dsn string
		opts      []Option
		direct    bool // WithListenPool
		pushed    bool // messages arrive, and not only resyncs
	}{
		"Transaction":             {mode: "transaction"},
		"TransactionAsAdvised":    {mode: "transaction", dsn: "&default_query_exec_mode=exec", opts: []Option{WithoutListen()}},
		"TransactionListenDirect": {mode: "transaction", direct: true, pushed: true},
		"Session":                 {mode: "session", pushed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pooler := server.StartPgBouncer(t, v.mode)
			name := newDatabase(t, server)
			requireNil(t, Migrate(t.Context(), newPool(t, server.DSN(name))))
			if v.direct {
				v.opts = append(v.opts, WithListenPool(newPool(t, server.DSN(name))))
			}
			pool := newPool(t, pooler.DSN(name)+v.dsn)
			storetest.Count(t, []*holdfast.Client{newClient(t, pool, v.opts...), newClient(t, pool, v.opts...)}, 4, 25, nil)

			holder, waiter := newClient(t, pool, v.opts...), newClient(t, pool, v.opts...)
			lease := lock(t, holder, "a")
			got := lockLater(t, waiter, "a")
			stalls, began := redistest.WatchStalls(t), time.Now()
			requireNil(t, lease.Release(t.Context()))
			requireNil(t, (<-got).Release(t.Context()))
			stalls.Within(t, began, probeTimeout+2*resyncEvery, "the hand-off")

			castest.Run(t, func(t testing.TB) cas.DocumentStore { return newStore(t, pool, v.opts...) })
			st := listen(t, newStore(t, pool, v.opts...), "a")
			if v.pushed {
				send(t, newStore(t, pool), "a", "pushed")
				require(t, st.bodies, 5*time.Second, "a message", "pushed")
			} else {
				require(t, st.resyncs, probeTimeout+2*resyncEvery, "a resync", struct{}{})
			}
		})
	}
}
