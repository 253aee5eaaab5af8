package fence_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// openCluster starts three masters with a third of the slots each.
func openCluster(t *testing.T) *redis.ClusterClient {
	t.Helper()
	const slots, masters = 16384, 3
	var (
		table []redis.ClusterSlot
		nodes []*redis.Client
	)
	for i := range masters {
		s := redistest.Start(t, redistest.WithArgs("--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"))
		from, to := i*slots/masters, (i+1)*slots/masters-1
		requireNil(t, s.Client().ClusterAddSlotsRange(t.Context(), from, to).Err())
		nodes = append(nodes, s.Client())
		table = append(table, redis.ClusterSlot{Start: from, End: to, Nodes: []redis.ClusterNode{{Addr: s.Addr()}}})
	}
	for _, node := range nodes {
		awaitCluster(t, node)
	}
	c := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return table, nil },
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// awaitCluster returns when a master reports its slots as served.
func awaitCluster(t *testing.T, rdb *redis.Client) {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for range 1000 {
		info, err := rdb.ClusterInfo(t.Context()).Result()
		requireNil(t, err)
		if strings.Contains(info, "cluster_state:ok") {
			return
		}
		<-look.C
	}
	t.Fatal("the cluster does not come up")
}

func TestCluster(t *testing.T) {
	rdb := openCluster(t)
	ctx := t.Context()
	g := fence.NewRedis(rdb)
	for _, name := range []string{stock, "{a}", "cart:{7}:x", "a b%20", "x{y", "pro{}cess", "a}b", "}{"} {
		requireNil(t, g.Claim(ctx, name, 2))
		requireStale(t, g.Claim(ctx, name, 1), 1, 2)
	}
	for resource, keys := range map[string][]string{
		stock:      {stock, "{stock:42}:log", "x:{stock:42}"},
		"cart:{7}": {"cart:{7}", "{7}", "user:{7}"},
		"a b%20":   {"a b%20", "{a b%20}"},
	} {
		all := fence.NewScript("for _, k in ipairs(KEYS) do redis.call('SET', k, 1) end return 1")
		requireNil(t, g.Do(ctx, resource, 3, all, keys).Err())
	}
	for i := range 50 { // every master has some
		name := fmt.Sprint("stock:", i)
		requireNil(t, g.Set(ctx, name, 5, name, "x", 0))
		requireStale(t, g.Set(ctx, name, 4, name, "y", 0), 4, 5)
	}
	for _, key := range []string{"stock:43", "{stock:43}", "stock:42x"} {
		requireIs(t, g.Set(ctx, stock, 1, key, 1, 0), fence.ErrInvalid)
	}
}

func TestRingSlots(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	defer ring.Close()
	requireIs(t, fence.NewRedis(ring).Set(t.Context(), stock, 1, "stock:43", 1, 0), fence.ErrInvalid)
}

// Names that look alike have guards of their own.
func TestGuardsAreApart(t *testing.T) {
	_, rdb := openRedis(t)
	ctx := t.Context()
	g := fence.NewRedis(rdb)
	names := []string{"a", "{a}", "a}", "{a", "a%7D", "{a}:tagged", "a}:escaped", "{}a", "%7B%7Da", "{a}:escaped"}
	for i, name := range names {
		requireNil(t, g.Claim(ctx, name, uint64(len(names)-i)))
	}
	if n := rdb.DBSize(ctx).Val(); n != int64(len(names)) {
		t.Fatalf("%d guards for %d names: %v", n, len(names), rdb.Keys(ctx, "*").Val())
	}
}
