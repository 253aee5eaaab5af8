package stores

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	driver "github.com/go-sql-driver/mysql"
	"github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	_ "modernc.org/sqlite" // the driver

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/etcd"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/engine/mysql"
	"github.com/holdfast-go/holdfast/engine/postgres"
	"github.com/holdfast-go/holdfast/engine/sqlite"
	"github.com/holdfast-go/holdfast/engine/zookeeper"
)

// Client is what one process has of a store.
type Client struct {
	Engine engine.Engine
	Pools  []Pool // of the process, that the engine may use
	// Close ends the connections. Call it after the last client of the engine is closed.
	Close func()
}

// Pool is connections of a process.
type Pool struct {
	Size int
	// Take takes one, which free returns to the pool.
	Take func(ctx context.Context) (free func(), err error)
}

// Watch returns a connection to a store in place of one that a client has made.
type Watch func(net.Conn) net.Conn

// Open makes a client of the store at a URL, with the settings that the documentation of its
// engine advises. It does not wait for a connection. On a store on whose connections every request has a
// response of its own, as on PostgreSQL, watch gets each connection; nil: none.
func Open(text string, watch Watch) (*Client, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "redis":
		return openRedis(text)
	case "redis+sentinel":
		return openSentinel(u)
	case "redis+cluster":
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: strings.Split(u.Host, ",")})
		return &Client{goredis.New(rdb), nil, func() { _ = rdb.Close() }}, nil
	case "postgres":
		return openPostgres(text, watch)
	case "mysql":
		return openMySQL(u)
	case "sqlite":
		return openSQLite(u.Path)
	case "etcd":
		return openEtcd(strings.Split(u.Host, ","))
	case "zk":
		return openZooKeeper(strings.Split(u.Host, ","))
	}
	return nil, fmt.Errorf("%s is no URL of a store", text)
}

func openRedis(text string) (*Client, error) {
	opts, err := redis.ParseURL(text)
	if err != nil {
		return nil, err
	}
	rdb := redis.NewClient(opts)
	return &Client{goredis.New(rdb), []Pool{RedisPool(rdb)}, func() { _ = rdb.Close() }}, nil
}

// confirmedBy, in the query of a Sentinel URL, is how many replicas have to confirm each grant.
const confirmedBy = "replicas"

// confirmedIn is how long a call waits for the replicas. It is below the trust windows of most leases.
const confirmedIn = 200 * time.Millisecond

// openSentinel opens redis+sentinel://host:port,host:port/name
func openSentinel(u *url.URL) (*Client, error) {
	var opts []goredis.Option
	if text := u.Query().Get(confirmedBy); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		opts = append(opts, goredis.WithReplicas(n, confirmedIn))
	}
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: strings.Trim(u.Path, "/"), SentinelAddrs: strings.Split(u.Host, ",")})
	return &Client{goredis.New(rdb, opts...), []Pool{RedisPool(rdb)}, func() { _ = rdb.Close() }}, nil
}

// RedisPool is the pool of a client of Redis.
func RedisPool(rdb *redis.Client) Pool {
	return Pool{rdb.Options().PoolSize, func(ctx context.Context) (func(), error) {
		conn := rdb.Conn()
		free := func() { _ = conn.Close() } // it goes back into the pool
		if err := conn.Ping(ctx).Err(); err != nil {
			free()
			return nil, err
		}
		return free, nil
	}}
}

func openPostgres(text string, watch Watch) (*Client, error) {
	config, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, err
	}
	if dial := config.ConnConfig.DialFunc; watch != nil {
		config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return watch(conn), nil
		}
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, err
	}
	take := func(ctx context.Context) (func(), error) {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		return conn.Release, nil
	}
	return &Client{postgres.New(pool), []Pool{{int(pool.Config().MaxConns), take}}, pool.Close}, nil
}

// poolSize bounds the pools of database/sql, which are unbounded by default.
const poolSize = 4

// openSQL makes a client on a database of package database/sql.
func openSQL(db *sql.DB, e engine.Engine) *Client {
	db.SetMaxOpenConns(poolSize)
	take := func(ctx context.Context) (func(), error) {
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		return func() { _ = conn.Close() }, nil
	}
	return &Client{e, []Pool{{poolSize, take}}, func() { _ = db.Close() }}
}

func openMySQL(u *url.URL) (*Client, error) {
	conf := driver.NewConfig()
	conf.User, conf.Net, conf.Addr, conf.DBName = u.User.Username(), "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	conf.Logger = &driver.NopLogger{} // of connections that a fault has cut
	connector, err := driver.NewConnector(conf)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	return openSQL(db, mysql.New(db)), nil
}

func openSQLite(path string) (*Client, error) {
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		return nil, err
	}
	return openSQL(db, sqlite.New(db)), nil
}

func openEtcd(endpoints []string) (*Client, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: endpoints, Logger: zap.NewNop(),
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second})
	if err != nil {
		return nil, err
	}
	return &Client{etcd.New(c), nil, func() { _ = c.Close() }}, nil
}

// zkSession is the timeout of sessions, so short that faults end them.
const zkSession = time.Second

func openZooKeeper(addrs []string) (*Client, error) {
	conn, _, err := zk.Connect(addrs, zkSession, zk.WithDialer(zookeeper.Dialer(zkSession)), zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	return &Client{zookeeper.New(conn), nil, conn.Close}, nil
}

// silent is a log of what faults do to connections.
type silent struct{}

// Printf implements zk.Logger.
func (silent) Printf(string, ...any) {}
