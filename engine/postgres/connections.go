package postgres

import (
	"context"
	"errors"
	"slices"
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
// renewal must not wait until the caller's pool has a free one. There is no goroutine but while one is
// opened, and idle ones are closed. A pgxpool.Pool is not used here, because a connection that
// was cut keeps its place there for up to 15 s.
type connections struct {
	config     *pgxpool.Config
	statements []*statement // prepared on each connection
	idleTime   time.Duration

	mu      sync.Mutex
	open    int           // connections that are there or are being opened
	opening int           // of these, those that are being opened
	idle    []*connection // the last used at the end; new ones at the start
	waiting []*waiter     // the calls without a connection, in their order
	sweeper *time.Timer
	unnamed bool // statements are not prepared: a pooler does not support it
}

// waiter is a call that waits for a connection.
type waiter struct {
	ctx  context.Context
	got  chan taken         // has room for one
	stop context.CancelFunc // of the connection that is being opened for it, or nil
}

// taken is a connection, or why one could not be opened.
type taken struct {
	c   *connection
	err error
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
		config: config, statements: statements, idleTime: 30 * time.Second,
		// Other modes are for poolers without prepared statements.
		unnamed: config.ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement,
	}
}

// take returns a connection, which the caller must put back. If none is idle, it opens one, which on a
// loaded server takes longer than the TTL of a short lease. So it returns the
// one that is there first: the new one, or one that another call has put back.
func (cs *connections) take(ctx context.Context) (*connection, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	cs.mu.Lock()
	if n := len(cs.idle); n > 0 {
		c := cs.idle[n-1]
		cs.idle = cs.idle[:n-1]
		cs.mu.Unlock()
		c.reused = true
		return c, nil
	}
	w := &waiter{ctx: ctx, got: make(chan taken, 1)}
	cs.waiting = append(cs.waiting, w)
	cs.openMore()
	cs.mu.Unlock()
	select {
	case t := <-w.got:
		return t.c, t.err
	case <-ctx.Done():
		cs.leave(w)
		return nil, context.Cause(ctx)
	}
}

// leave ends the wait of a call whose ctx has ended, and what the server does to open its connection, and passes on what
// it has got already.
func (cs *connections) leave(w *waiter) {
	cs.mu.Lock()
	cs.waiting = slices.DeleteFunc(cs.waiting, func(o *waiter) bool { return o == w })
	stop := w.stop
	cs.mu.Unlock()
	if stop != nil {
		stop()
	}
	select {
	case t := <-w.got:
		if t.c != nil {
			cs.put(t.c)
		}
	default:
	}
}

// openMore begins to open a connection if more calls wait than are being opened. The mutex is held.
func (cs *connections) openMore() {
	if len(cs.waiting) <= cs.opening || cs.open >= maxConnections {
		return
	}
	cs.open++
	cs.opening++
	w := cs.waiting[len(cs.waiting)-1]
	// It does not end with the call, which may get another connection before.
	ctx, stop := context.WithTimeout(context.WithoutCancel(w.ctx), connectTimeout)
	w.stop = stop
	go func() {
		defer stop()
		c, err := cs.dial(ctx)
		cs.mu.Lock()
		defer cs.mu.Unlock()
		cs.opening--
		if err == nil {
			cs.add(c)
			return
		}
		cs.open--
		if !errors.Is(ctx.Err(), context.Canceled) { // else its call has gone
			cs.answer(taken{err: err})
		}
		cs.openMore()
	}()
}

// answer ends the wait of the call that has waited longest. It returns false if none waits. The mutex is held.
func (cs *connections) answer(t taken) bool {
	if len(cs.waiting) == 0 {
		return false
	}
	cs.waiting[0].got <- t
	cs.waiting = cs.waiting[1:]
	return true
}

// add passes a new connection to a call that waits, or keeps it for when those in use do not suffice: its
// process of the server has just used much of its share of the processor, and on a loaded
// server the first call on it is slow. The mutex is held.
func (cs *connections) add(c *connection) {
	if !cs.answer(taken{c: c}) {
		cs.keep(c, 0)
	}
}

// keep keeps a connection as the i-th idle one. The mutex is held.
func (cs *connections) keep(c *connection, i int) {
	c.used = time.Now()
	cs.idle = slices.Insert(cs.idle, i, c)
	if cs.sweeper == nil {
		cs.sweeper = time.AfterFunc(cs.idleTime, cs.sweep)
	}
}

// put takes a connection back. One that is broken, in a transaction or too old is closed.
func (cs *connections) put(c *connection) {
	pg := c.pgx.PgConn()
	old := cs.config.MaxConnLifetime > 0 && time.Since(c.opened) > cs.config.MaxConnLifetime
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if pg.IsClosed() || pg.IsBusy() || pg.TxStatus() != 'I' || old || cs.unnamed && c.prepared {
		cs.discard(c)
		cs.openMore()
		return
	}
	c.reused = true
	if !cs.answer(taken{c: c}) {
		cs.keep(c, len(cs.idle))
	}
}

// discard closes a connection. The mutex is held.
func (cs *connections) discard(c *connection) {
	cs.open--
	go c.close()
}

// sweep closes the connections that were not used for a while.
func (cs *connections) sweep() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.sweeper == nil {
		return
	}
	cs.idle = slices.DeleteFunc(cs.idle, func(c *connection) bool {
		old := time.Since(c.used) >= cs.idleTime
		if old {
			cs.discard(c)
		}
		return old
	})
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
		cs.discard(c)
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

// dial returns a new connection for calls.
func (cs *connections) dial(ctx context.Context) (*connection, error) {
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
	results, err := results(p, 0)
	if err == nil {
		err = p.Close()
	}
	if err != nil {
		return err
	}
	c.begin = string(results[0].Rows[0][0]) != "read committed"
	return nil
}
