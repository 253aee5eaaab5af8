package goredis

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// ownPoolSize is enough for some renewals at a time and the calls of all senders while the
// caller's pool has no free connection. Subscriptions are not counted.
const ownPoolSize = batchSenders + 4

// ownPool has the engine's own connections, for renewals and wake-ups, which must not wait for
// the caller's pool. They are opened when first needed.
type ownPool struct {
	base      redis.UniversalClient
	sentinels *sentinelDialer // nil: the caller's client is not a redis.NewFailoverClient
	follower  follower

	mu  sync.Mutex
	rdb redis.UniversalClient
}

// client returns the client of the own connections. If the type of the caller's client is
// unknown, it is the caller's client.
func (o *ownPool) client() redis.UniversalClient {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rdb == nil {
		o.rdb = o.clone()
	}
	return o.rdb
}

// take removes the own client and returns it, to be closed, or nil. The next call of client
// makes a new one.
func (o *ownPool) take() redis.UniversalClient {
	o.mu.Lock()
	defer o.mu.Unlock()
	rdb := o.rdb
	o.rdb = nil
	if rdb == o.base {
		return nil
	}
	return rdb
}

func (o *ownPool) clone() redis.UniversalClient {
	switch c := o.base.(type) {
	case *redis.Client:
		options := *c.Options()
		if o.sentinels != nil {
			options.Dialer = o.sentinels.connect
		}
		return redis.NewClient(nodeOptions(options))
	case *redis.ClusterClient:
		return redis.NewClusterClient(clusterOptions(*c.Options()))
	}
	return o.base
}

// aged returns a life of a connection, bounded by ownAge; 0 is unbounded.
func aged(life time.Duration) time.Duration {
	if life <= 0 {
		return ownAge
	}
	return min(life, ownAge)
}

// nodeOptions keeps the address and the credentials of a connection, and changes the rest: one
// attempt, bounded by ctx, few connections, nothing in the background.
func nodeOptions(o redis.Options) *redis.Options {
	o.MaxRetries = -1
	o.ContextTimeoutEnabled = true
	o.DialerRetries = 1
	o.PoolSize, o.MaxConcurrentDials = ownPoolSize, ownPoolSize
	o.PipelinePoolSize = -1
	o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = 0, 0, 0
	o.Limiter = nil
	o.ClientSideCache, o.ClientSideCacheConfig = nil, nil
	o.AutoPipelineOptions = nil
	o.PushNotificationProcessor = nil
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if o.ReadTimeout <= 0 { // no limit for the caller; the default here
		o.ReadTimeout = 0
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = 0
	}
	o.ConnMaxLifetime, o.ConnMaxLifetimeJitter = aged(o.ConnMaxLifetime), 0
	if o.Dialer != nil {
		o.Dialer = tracked(o.Dialer)
	}
	return &o
}

func clusterOptions(o redis.ClusterOptions) *redis.ClusterOptions {
	o.MaxRetries = -1
	o.ReadOnly, o.RouteByLatency, o.RouteRandomly = false, false, false // masters only
	o.ContextTimeoutEnabled = true
	o.DialerRetries = 1
	o.PoolSize, o.MaxConcurrentDials = ownPoolSize, ownPoolSize
	o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = 0, 0, 0
	o.ConnMaxLifetime, o.ConnMaxLifetimeJitter = aged(o.ConnMaxLifetime), 0
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	if o.ReadTimeout <= 0 {
		o.ReadTimeout = 0
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = 0
	}
	newNode := o.NewClient
	if newNode == nil {
		newNode = redis.NewClient
	}
	o.NewClient = func(node *redis.Options) *redis.Client {
		if node.Dialer == nil {
			if node.DialTimeout == 0 {
				node.DialTimeout = 5 * time.Second // go-redis's default
			}
			node.Dialer = redis.NewDialer(node)
		}
		node.Dialer = tracked(node.Dialer)
		return newNode(node)
	}
	return &o
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// socketKey is the context key of a *socket.
type socketKey struct{}

// tracked returns a dialer that gives its connections to the socket in ctx, if there is one.
func tracked(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		s, watched := ctx.Value(socketKey{}).(*socket)
		if watched && !s.dials() {
			return nil, errSpent
		}
		conn, err := dial(ctx, network, addr)
		if watched && err == nil {
			s.set(conn)
		}
		return conn, err
	}
}

// socket is the current connection of a subscription. Closing it ends reads and writes on it,
// also while go-redis dials or shakes hands, when go-redis itself offers no way to do so.
type socket struct {
	once bool // there is only one connection

	mu    sync.Mutex
	conn  net.Conn
	shut  bool
	spent bool
}

// errSpent ends a subscription that has lost its one connection.
var errSpent = errors.New("goredis: the connection of the subscription is lost")

// dials reports whether a connection may be made.
func (s *socket) dials() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.spent
	s.spent = s.once
	return first && !s.shut
}

func (s *socket) set(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = conn
	if s.shut {
		_ = conn.Close()
	}
}

// drop closes the current connection. A new one may be made.
func (s *socket) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// close closes the current connection and any later one.
func (s *socket) close() {
	s.mu.Lock()
	s.shut = true
	s.mu.Unlock()
	s.drop()
}
