package stores

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/etcd"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/engine/postgres"
	"github.com/holdfast-go/holdfast/engine/quorum"
	"github.com/holdfast-go/holdfast/internal/etcdservers"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
)

// A quorum of three different stores: while any one of them is stopped, the clients take
// turns, no two are inside at once, and tokens rise.
func TestQuorumOfThreeStores(t *testing.T) {
	redisServer, pgServer := redistest.Start(t), sqlservers.StartPostgreSQL(t)
	etcdServer := etcdservers.Start(t, etcdservers.Config{})
	pool, err := pgxpool.New(t.Context(), pgServer.DSN(""))
	requireNil(t, err)
	defer pool.Close()
	requireNil(t, postgres.Migrate(t.Context(), pool))

	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var inside atomic.Int32
	var last atomic.Uint64
	work := func(ctx context.Context) error {
		if inside.Add(1) != 1 {
			redistest.Broken(t, "two are inside at once")
		}
		defer inside.Add(-1)
		token := holdfast.LeaseFromContext(ctx).Token()
		if was := last.Swap(token); was >= token {
			redistest.Broken(t, "token %d after %d", token, was)
		}
		return nil
	}
	const clients = 3
	var turns [clients]atomic.Int32
	for i := range clients {
		e, err := clientv3.New(clientv3.Config{Endpoints: []string{etcdServer.Addr()}, Logger: zap.NewNop()})
		requireNil(t, err)
		c, err := holdfast.New(quorum.New(goredis.New(redisServer.Client()), postgres.New(pool), etcd.New(e)))
		requireNil(t, err)
		all.Go(func() {
			for ctx.Err() == nil {
				err := c.Mutex("stock:42").Do(ctx, work)
				switch {
				case err == nil:
					turns[i].Add(1)
				case ctx.Err() == nil && !errors.Is(err, holdfast.ErrUnavailable):
					t.Error(err)
				}
			}
			if err := errors.Join(c.Close(), e.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	awaitTurns := func(when string) {
		var was [clients]int32
		for i := range turns {
			was[i] = turns[i].Load()
		}
		begin := time.Now()
		redistest.Await(t, time.Minute, "turns of every client "+when, func() bool {
			for i := range turns {
				if turns[i].Load() < was[i]+10 {
					return false
				}
			}
			return true
		})
		t.Logf("ten turns of each %s: %v", when, time.Since(begin))
	}
	awaitTurns("with all stores")
	for _, store := range []struct {
		name         string
		stop, resume func()
	}{
		{"Redis", redisServer.Pause, redisServer.Resume},
		{"PostgreSQL", pgServer.Pause, pgServer.Resume},
		{"etcd", etcdServer.Pause, etcdServer.Resume},
	} {
		store.stop()
		awaitTurns("while " + store.name + " is stopped")
		store.resume()
		awaitTurns("after " + store.name + " was resumed")
	}
}
