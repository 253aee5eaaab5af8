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

// ownPoolSize is enough for some renewals at a time, and the calls of all senders while
// the caller's pool has no connection. Subscriptions are not counted.
const ownPoolSize = batchSenders + 4

// ownPool is the engine's own connections, for renewals and wake-ups: they must not wait
// for the caller's pool. They are opened when first needed.
type ownPool struct {
	base      redis.UniversalClient
	sentinels *sentinelDialer // nil: no client of redis.NewFailoverClient
	follower  follower

	mu  sync.Mutex
	rdb redis.UniversalClient
}

// client returns the client of the own connections. If the type of the caller's
// client is not known it is the caller's.
func (o *ownPool) client() redis.UniversalClient {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rdb == nil {
		o.rdb = o.clone()
	}
	return o.rdb
}

// take returns what has to be closed, if anything; client makes a new one.
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

// aged bounds the life of a connection; 0 is none.
func aged(life time.Duration) time.Duration {
	if life <= 0 {
		return ownAge
	}
	return min(life, ownAge)
}

// nodeOptions keeps where and as whom to connect, and changes how: one try,
// bounded by ctx, few connections, nothing in the background.
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
	if o.ReadTimeout <= 0 { // "no limit" to the caller; here it means the default
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

// tracked tells the socket in ctx, if there is one, what was dialled for it.
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

// socket is the present connection of a subscription. Closing it wakes whoever
// reads or writes on it, which go-redis itself does not offer while it dials or
// shakes hands.
type socket struct {
	once bool // there is one connection and no other after it

	mu    sync.Mutex
	conn  net.Conn
	shut  bool
	spent bool
}

// errSpent ends a subscription that has lost its one connection.
var errSpent = errors.New("goredis: the connection of the subscription is lost")

// dials tells whether a connection may be made.
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

// drop closes the present connection; the next one is welcome.
func (s *socket) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// close closes the present connection and any later one.
func (s *socket) close() {
	s.mu.Lock()
	s.shut = true
	s.mu.Unlock()
	s.drop()
}
