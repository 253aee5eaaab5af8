package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
)

// NodeKind is what the URL of a Redis names.
type NodeKind string

// The kinds of Redis.
const (
	Single   NodeKind = "single"   // one server
	Sentinel NodeKind = "sentinel" // the master that Sentinels name
	Cluster  NodeKind = "cluster"
)

// RedisNode is a Redis.
type RedisNode struct {
	Kind   NodeKind
	Client redis.UniversalClient
	// Addrs are the hosts of the URL: the server, the Sentinels, or some servers
	// of the cluster.
	Addrs []string
	// Master is the name that Sentinels know the master by.
	Master string
	// DB is the number of the database.
	DB int

	server   redis.Options // of any server of the node, but for its address
	sentinel redis.Options // of any Sentinel
}

// Server returns a client for one server of the node, with the credentials of
// the URL. Unlike Client it tries once, obeys the deadline of ctx, and does nothing in
// the background. The caller closes it.
func (n *RedisNode) Server(addr string) *redis.Client { return once(n.server, addr) }

// SentinelAt is Server for one of the Sentinels.
func (n *RedisNode) SentinelAt(addr string) *redis.Client { return once(n.sentinel, addr) }

func once(o redis.Options, addr string) *redis.Client {
	o.Addr = addr
	o.MaxRetries, o.DialerRetries = -1, 1
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true // CLIENT SETINFO may be refused
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(&o)
}

// Engine implements Node.
func (n *RedisNode) Engine() engine.Engine { return goredis.New(n.Client) }

// RoundTrip implements Node: it runs an empty script.
func (n *RedisNode) RoundTrip(ctx context.Context, prefix string) error {
	return emptyScript.Run(ctx, n.Client, []string{prefix + ":{bench}"}).Err()
}

var emptyScript = redis.NewScript("return 1")

// Servers implements Node. The number of the database does not count.
func (n *RedisNode) Servers() []string {
	names := make([]string, len(n.Addrs))
	for i, addr := range n.Addrs {
		names[i] = fmt.Sprintf("%s %s %q", n.Kind, addr, n.Master)
	}
	return names
}

// Close implements Node.
func (n *RedisNode) Close() error { return n.Client.Close() }

// String describes the node for messages, without credentials.
func (n *RedisNode) String() string {
	switch n.Kind {
	case Sentinel:
		return fmt.Sprintf("the master %q that the Sentinels at %s name, database %d", n.Master, strings.Join(n.Addrs, ", "), n.DB)
	case Cluster:
		return "the cluster at " + strings.Join(n.Addrs, ", ")
	}
	return fmt.Sprintf("%s, database %d", n.Addrs[0], n.DB)
}

// Short returns a shorter description, for a table.
func (n *RedisNode) Short() string {
	switch n.Kind {
	case Sentinel:
		return fmt.Sprintf("%s by %s", n.Master, n.Addrs[0])
	case Cluster:
		return "cluster " + n.Addrs[0]
	}
	return n.Addrs[0]
}
