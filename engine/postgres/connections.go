package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// maxConnections is how many connections calls have at the same time.
	maxConnections = 6
	// connectTimeout bounds opening one, with equal shares for all hosts: one that does not
	// respond must not take the time of the others.
	connectTimeout = callTimeout * 9 / 10
	// closeTimeout bounds saying goodbye to the server.
	closeTimeout = time.Second
)

// connections are the engine's own, opened as the caller's pool opens its connections: a
// renewal must not wait until the caller's pool has a free one. There is no goroutine, and
// idle ones are closed. A pgxpool.Pool is not used here, because a connection that
// was cut keeps its place there for up to 15 s.
type connections struct {
	config     *pgxpool.Config
	statements []*statement // prepared on each connection
	free       chan struct{}
	idleTime   time.Duration

	mu      sync.Mutex
	idle    []*connection // the last used at the end
	sweeper *time.Timer
	unnamed bool // statements are not prepared: a pooler does not support it
}

// connection is one connection to the server.
type connection struct {
	pgx      *pgx.Conn
	prepared bool
	begin    bool // its default isolation level is not READ COMMITTED
	reused   bool
	opened   time.Time
	used     time.Time
}

func newConnections(config *pgxpool.Config, statements []*statement) *connections {
	return &connections{
		config: config, statements: statements, free: make(chan struct{}, maxConnections), idleTime: 30 * time.Second,
		// Other modes are for poolers without prepared statements.
		unnamed: config.ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement,
	}
}

// take returns a connection, which the caller must put back.
func (cs *connections) take(ctx context.Context) (*connection, error) {
	select {
	case cs.free <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c := cs.pop(); c != nil {
		return c, nil
	}
	c, err := cs.open(ctx)
	if err != nil {
		<-cs.free
		return nil, err
	}
	return c, nil
}

func (cs *connections) pop() *connection {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	n := len(cs.idle)
	if n == 0 {
		return nil
	}
	c := cs.idle[n-1]
	cs.idle = cs.idle[:n-1]
	c.reused = true
	return c
}

// put takes a connection back. One that is broken, in a transaction or too old is closed.
func (cs *connections) put(c *connection) {
	defer func() { <-cs.free }()
	pg := c.pgx.PgConn()
	old := cs.config.MaxConnLifetime > 0 && time.Since(c.opened) > cs.config.MaxConnLifetime
	if pg.IsClosed() || pg.IsBusy() || pg.TxStatus() != 'I' || old {
		go c.close()
		return
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.unnamed && c.prepared {
		go c.close()
		return
	}
	c.used = time.Now()
	cs.idle = append(cs.idle, c)
	if cs.sweeper == nil {
		cs.sweeper = time.AfterFunc(cs.idleTime, cs.sweep)
	}
}

// sweep closes the connections that were not used for a while.
func (cs *connections) sweep() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.sweeper == nil {
		return
	}
	for len(cs.idle) > 0 && time.Since(cs.idle[0].used) >= cs.idleTime {
		go cs.idle[0].close()
		cs.idle = cs.idle[1:]
	}
	cs.sweeper = nil
	if len(cs.idle) > 0 {
		cs.sweeper = time.AfterFunc(cs.idleTime, cs.sweep)
	}
}

// closeIdle closes the connections that are not in use.
func (cs *connections) closeIdle() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, c := range cs.idle {
		go c.close()
	}
	cs.idle = nil
	if cs.sweeper != nil {
		cs.sweeper.Stop()
		cs.sweeper = nil
	}
}

// withoutPrepared makes further connections without prepared statements.
func (cs *connections) withoutPrepared() {
	cs.mu.Lock()
	cs.unnamed = true
	cs.mu.Unlock()
	cs.closeIdle()
}

func (c *connection) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = c.pgx.Close(ctx) // the server notices it in any case
}

// connect opens a connection with a pool's configuration and its hooks for new connections.
// received is called for each notification.
func connect(ctx context.Context, pool *pgxpool.Config, received func(*pgconn.Notification)) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	config := pool.ConnConfig.Copy()
	// When its ctx ends, a call ends at once. The connection is then closed, after a request to
	// the server to cancel what it does.
	config.BuildContextWatcherHandler = func(pg *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: pg.Conn()}
	}
	share := connectTimeout / time.Duration(1+len(config.Fallbacks))
	if config.ConnectTimeout <= 0 || config.ConnectTimeout > share {
		config.ConnectTimeout = share
	}
	config.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { received(n) }
	if pool.BeforeConnect != nil {
		if err := pool.BeforeConnect(ctx, config); err != nil {
			return nil, err
		}
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if pool.AfterConnect != nil {
		if err := pool.AfterConnect(ctx, conn); err != nil {
			(&connection{pgx: conn}).close()
			return nil, err
		}
	}
	return conn, nil
}

// open returns a new connection for calls.
func (cs *connections) open(ctx context.Context) (*connection, error) {
	conn, err := connect(ctx, cs.config, func(*pgconn.Notification) {})
	if err != nil {
		return nil, err
	}
	cs.mu.Lock()
	c := &connection{pgx: conn, prepared: !cs.unnamed, opened: time.Now()}
	cs.mu.Unlock()
	if err := c.prepare(ctx, cs.statements); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// inspectSession returns the isolation level, and makes the server notice within 11 s that the
// client's host is gone, instead of the two hours that systems take by default. If that happens
// while only a part of a transaction has arrived, its rows are locked until then.
const inspectSession = `SELECT current_setting('default_transaction_isolation'), ` +
	`set_config(name, CASE WHEN current_setting(name)::int BETWEEN 1 AND most THEN current_setting(name) ELSE most::text END, false) ` +
	`FROM (VALUES ('tcp_keepalives_idle', 5), ('tcp_keepalives_interval', 2), ('tcp_keepalives_count', 3)) AS setting (name, most)`

// prepare prepares statements, and looks at the session, in one round trip.
func (c *connection) prepare(ctx context.Context, all []*statement) error {
	p := c.pgx.PgConn().StartPipeline(ctx)
	p.SendQueryParams(inspectSession, nil, nil, nil, nil)
	if c.prepared {
		for _, st := range all {
			p.SendPrepare(st.name, st.sql, st.types)
		}
	}
	if err := p.Sync(); err != nil {
		return err
	}
	results, err := results(p)
	if err == nil {
		err = p.Close()
	}
	if err != nil {
		return err
	}
	c.begin = string(results[0].Rows[0][0]) != "read committed"
	return nil
}
