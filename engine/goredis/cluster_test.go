package goredis_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/enginetest"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A cluster of one master: keys of one slot a call, and go-redis's client of
// clusters. What moves slots and masters is not tested here.
func TestConformanceOnACluster(t *testing.T) {
	server := redistest.Start(t, redistest.WithArgs("--cluster-enabled", "yes"))
	node := server.Client()
	must(t, node.Do(t.Context(), "cluster", "addslotsrange", "0", "16383").Err())
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(node.ClusterInfo(t.Context()).Val(), "cluster_state:ok") {
		<-tick.C
	}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}})
	t.Cleanup(func() { _ = rdb.Close() })
	enginetest.Run(t, func(testing.TB) engine.Engine { return goredis.New(rdb) })
}
