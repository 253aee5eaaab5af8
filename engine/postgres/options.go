package postgres

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Option changes an Engine, and what Migrate and Schema create.
type Option func(*options)

type options struct {
	schema   string
	relaxed  bool
	noListen bool
	listenAs *pgxpool.Pool // nil: as the other connections
}

// WithSchema sets the schema of the table. By default it is the first one of the
// connection's search_path. Every process that shares locks must use the same one.
func WithSchema(name string) Option { return func(o *options) { o.schema = name } }

// WithRelaxed commits without waiting for the disk (synchronous_commit=off), which is many
// times as fast on a server with fsync. If the server crashes, it loses up to
// three times wal_writer_delay of changes, 0.6 s by default: a lease that was granted in
// that time is forgotten, and a second holder may be granted the same resource while the
// first one works, until the first one's next renewal fails. Fencing tokens still increase.
// A crash of the clients, or an orderly restart of the server, loses nothing.
func WithRelaxed() Option { return func(o *options) { o.relaxed = true } }

// WithoutListen opens no connection for LISTEN. Waiters then look each second, so a hand-off
// takes up to a second. Use it, or WithListenPool, where the engine's connections go through a pooler
// in transaction mode; without either the engine detects that within seconds.
func WithoutListen() Option { return func(o *options) { o.noListen = true } }

// WithListenPool opens the connection for LISTEN as the configuration of another pool says, which
// leads to the same database: past a pooler in transaction mode, which the other connections go through.
// Hand-offs are then as fast as without the pooler. The other pool needs no connection of its own.
func WithListenPool(direct *pgxpool.Pool) Option { return func(o *options) { o.listenAs = direct } }

func collect(opts []Option) options {
	var o options
	for _, set := range opts {
		set(&o)
	}
	return o
}

// table returns the name of the table in SQL.
func (o options) table() string {
	if o.schema == "" {
		return tableName
	}
	return pgx.Identifier{o.schema, tableName}.Sanitize()
}

// A statement is prepared on a connection under a name of its own: two of the same name may meet
// behind a pooler.
type statement struct {
	name, sql string
	types     []uint32 // of the parameters
}

func newStatement(sql string, types ...uint32) *statement {
	sum := sha256.Sum256([]byte(sql))
	return &statement{name: "holdfast_" + hex.EncodeToString(sum[:12]), sql: sql, types: types}
}
