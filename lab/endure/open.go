package endure

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/engine/quorum"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	// retention is the shortest, so that in a run many names are forgotten.
	retention = time.Minute
	// replicas is how many replicas confirm each grant: all.
	replicas = 2
	// confirmed is how long they may take.
	confirmed = time.Second
	// poolSize bounds the pool of a process, so that the number of its connections says something.
	poolSize = 4
)

// openEngine opens an engine on the store at the URLs, whose connections have the name. End closes them.
func openEngine(store string, urls []string, name string) (e engine.Engine, end func(), err error) {
	switch store {
	case onSentinel:
		rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.SentinelName, SentinelAddrs: urls, ClientName: name, PoolSize: poolSize, PipelinePoolSize: poolSize})
		return goredis.New(rdb, goredis.WithRetention(retention), goredis.WithReplicas(replicas, confirmed)), func() { _ = rdb.Close() }, nil
	case onQuorum:
		var nodes []engine.Engine
		var clients []*redis.Client
		for _, u := range urls {
			o, err := redis.ParseURL(u)
			if err != nil {
				return nil, nil, err
			}
			o.ClientName, o.PoolSize, o.PipelinePoolSize = name, poolSize, poolSize
			clients = append(clients, redis.NewClient(o))
			nodes = append(nodes, goredis.New(clients[len(clients)-1], goredis.WithRetention(retention)))
		}
		return quorum.New(nodes...), func() {
			for _, c := range clients {
				_ = c.Close()
			}
		}, nil
	}
	return nil, nil, fmt.Errorf("no store %q", store)
}
