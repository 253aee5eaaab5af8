package store

import (
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// NodeKind is what a URL names.
type NodeKind string

// The kinds of node.
const (
	Single   NodeKind = "single"   // one server
	Sentinel NodeKind = "sentinel" // the master that Sentinels name
	Cluster  NodeKind = "cluster"
)

// Node is what one URL names.
type Node struct {
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
func (n *Node) Server(addr string) *redis.Client { return once(n.server, addr) }

// SentinelAt is Server for one of the Sentinels.
func (n *Node) SentinelAt(addr string) *redis.Client { return once(n.sentinel, addr) }

func once(o redis.Options, addr string) *redis.Client {
	o.Addr = addr
	o.MaxRetries, o.DialerRetries = -1, 1
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true // CLIENT SETINFO may be refused
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(&o)
}

// sameAs reports whether both URLs name the same server, master or cluster.
func (n *Node) sameAs(o *Node) bool {
	shared := slices.ContainsFunc(n.Addrs, func(a string) bool { return slices.Contains(o.Addrs, a) })
	return shared && n.Kind == o.Kind && n.Master == o.Master
}

// String describes the node for messages, without credentials.
func (n *Node) String() string {
	switch n.Kind {
	case Sentinel:
		return fmt.Sprintf("the master %q that the Sentinels at %s name, database %d", n.Master, strings.Join(n.Addrs, ", "), n.DB)
	case Cluster:
		return "the cluster at " + strings.Join(n.Addrs, ", ")
	}
	return fmt.Sprintf("%s, database %d", n.Addrs[0], n.DB)
}

// Short returns a shorter description, for a table.
func (n *Node) Short() string {
	switch n.Kind {
	case Sentinel:
		return fmt.Sprintf("%s by %s", n.Master, n.Addrs[0])
	case Cluster:
		return "cluster " + n.Addrs[0]
	}
	return n.Addrs[0]
}
