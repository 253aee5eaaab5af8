package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/postgres"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
)

func postgresStore() store {
	return store{
		name: "PostgreSQL", disk: true, pair: 1.3,
		launch: launchPostgres,
		engine: postgresEngine(),
		commits: func(s settings) (client, error) {
			pool, err := s.pgPool()
			if err != nil {
				return nil, err
			}
			return twice(func(ctx context.Context) error {
				_, err := pool.Exec(ctx, "UPDATE bare SET n = n + 1 WHERE id = 1")
				return err
			}, pool.Close), nil
		},
		ring: func(s settings) (client, error) {
			pool, err := s.pgPool()
			return &pgRing{pool: pool}, err
		},
		peers: []contender{
			{name: "pg_advisory_lock", role: peer, background: true, open: pgPeer(advisoryLock)},
			{name: "SELECT FOR UPDATE, PostgreSQL", role: peer, background: true, open: pgPeer(rowLock)},
		},
		more: []contender{{name: "holdfast on PostgreSQL, WithRelaxed", role: ours, background: true, open: func(s settings) (client, error) {
			return store{}.open(s, postgresEngine(postgres.WithRelaxed()))
		}}},
	}
}

func postgresEngine(opts ...postgres.Option) func(s settings) (engine.Engine, io.Closer, error) {
	return func(s settings) (engine.Engine, io.Closer, error) {
		pool, err := s.pgPool()
		if err != nil {
			return nil, nil, err
		}
		return postgres.New(pool, opts...), closing(pool.Close), nil
	}
}

// pgPool opens the pool of a client, with a connection for each caller.
func (s settings) pgPool() (*pgxpool.Pool, error) {
	conf, err := pgxpool.ParseConfig(s.addrs[0])
	if err != nil {
		return nil, err
	}
	conf.MaxConns = int32(s.poolSize())
	return pgxpool.NewWithConfig(context.Background(), conf)
}

func launchPostgres(ctx context.Context) (*storeServer, error) {
	server, err := sqlservers.LaunchPostgreSQL(sqlservers.WithFsync(), sqlservers.WithSetting("max_connections", mostConnections))
	if err != nil {
		return nil, err
	}
	pool, err := settings{addrs: []string{server.DSN("")}, pool: 1}.pgPool()
	if err == nil {
		if err = postgres.Migrate(ctx, pool); err == nil {
			_, err = pool.Exec(ctx, `CREATE TABLE bare (id int PRIMARY KEY, n int) WITH (fillfactor = 50);
				INSERT INTO bare VALUES (1, 0);
				CREATE TABLE ring (name text PRIMARY KEY, turn int) WITH (fillfactor = 50)`)
		}
	}
	stop := func() {
		if pool != nil {
			pool.Close()
		}
		server.Stop()
	}
	if err != nil {
		stop()
		return nil, err
	}
	return &storeServer{
		addrs: []string{server.DSN("")}, pid: server.PID(), stop: stop,
		writes: func(ctx context.Context) (n int, err error) { // each has a number
			err = pool.QueryRow(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint").Scan(&n)
			return n, err
		},
		clear: func(ctx context.Context) error {
			_, err := pool.Exec(ctx, "TRUNCATE holdfast1_doc, ring")
			return err
		},
	}, nil
}

// pgPeer opens a client whose locks take a connection of the pool for as long as they are held.
func pgPeer(of func(pool *pgxpool.Pool, resource string) calls) func(s settings) (client, error) {
	return func(s settings) (client, error) {
		pool, err := s.pgPool()
		if err != nil {
			return nil, err
		}
		return simple{func(resource string) calls { return of(pool, resource) }, pool.Close}, nil
	}
}

// advisoryLock waits in the server, so its Lock does not return when ctx ends: every caller gets
// its turn in the end.
func advisoryLock(pool *pgxpool.Pool, resource string) calls {
	var c *pgxpool.Conn
	run := func(ctx context.Context, sql string) error {
		_, err := c.Exec(context.WithoutCancel(ctx), sql, resource)
		return err
	}
	return calls{
		lock: func(ctx context.Context) (err error) {
			if c, err = pool.Acquire(context.WithoutCancel(ctx)); err != nil {
				return err
			}
			return run(ctx, "SELECT pg_advisory_lock(hashtextextended($1, 0))")
		},
		unlock: func(ctx context.Context) error {
			defer c.Release()
			return run(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))")
		},
	}
}

// rowLock is a transaction that locks a row, for as long as the lock is held.
func rowLock(pool *pgxpool.Pool, resource string) calls {
	var tx pgx.Tx
	return calls{
		lock: func(ctx context.Context) (err error) {
			ctx = context.WithoutCancel(ctx)
			if tx, err = pool.Begin(ctx); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, "SELECT FROM bare WHERE id = 1 FOR UPDATE")
			return err
		},
		unlock: func(ctx context.Context) error { return tx.Commit(context.WithoutCancel(ctx)) },
	}
}

// pgRing passes a turn by a change of a row and a notification, in one transaction.
type pgRing struct {
	pool *pgxpool.Pool

	mu        sync.Mutex
	listening []*pgx.Conn
}

func (p *pgRing) close() {
	for _, c := range p.listening {
		_ = c.Close(context.Background())
	}
	p.pool.Close()
}

func (p *pgRing) provide(ctx context.Context, resource string) error {
	_, err := p.pool.Exec(ctx, "INSERT INTO ring VALUES ($1, 0)", resource)
	return err
}

func (p *pgRing) lock(resource string) lock { return p.member(resource, 0, 1) }

func (p *pgRing) member(resource string, i, n int) lock {
	m := &pgMember{p: p, resource: resource, i: i, n: n}
	return calls{m.await, m.pass}
}

type pgMember struct {
	p        *pgRing
	resource string
	i, n     int
	c        *pgx.Conn // listens
	first    int       // the turn when it began to listen; it may be notified of that one as well
}

func (m *pgMember) await(ctx context.Context) error {
	if m.c == nil {
		if mine, err := m.listen(ctx); mine || err != nil {
			return err
		}
	}
	for {
		n, err := m.c.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if turn, err := strconv.Atoi(n.Payload); err != nil || turn > m.first {
			return err
		}
	}
}

// listen reports whether it is the member's turn already.
func (m *pgMember) listen(ctx context.Context) (mine bool, err error) {
	if m.c, err = pgx.ConnectConfig(ctx, m.p.pool.Config().ConnConfig); err != nil {
		return false, err
	}
	m.p.mu.Lock()
	m.p.listening = append(m.p.listening, m.c)
	m.p.mu.Unlock()
	if _, err := m.c.Exec(ctx, fmt.Sprintf(`LISTEN "%s %d"`, m.resource, m.i)); err != nil {
		return false, err
	}
	err = m.c.QueryRow(ctx, "SELECT turn FROM ring WHERE name = $1", m.resource).Scan(&m.first)
	return m.first%m.n == m.i, err
}

func (m *pgMember) pass(ctx context.Context) error {
	_, err := m.p.pool.Exec(ctx, `WITH now AS (UPDATE ring SET turn = turn + 1 WHERE name = $1 RETURNING turn)
		SELECT pg_notify($1 || ' ' || turn % $2, turn::text) FROM now`, m.resource, m.n)
	return err
}
