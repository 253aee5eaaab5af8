package postgres

import (
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
)

// Engine keeps locks in a table of a PostgreSQL database. It is safe for concurrent use, and
// need not be closed: it has no goroutine while it is not used, closes its connections 30 s
// after their last use, and when a holdfast.Client on it is closed. Every engine on
// the same table shares its locks.
type Engine struct {
	*cas.Engine
	documents *documents
}

var _ engine.Engine = (*Engine)(nil)

// New returns an engine on the database of a pool; call Migrate first, once, to create the table.
// The engine opens at most seven connections of its own, as the pool's configuration
// says, with its hooks BeforeConnect and AfterConnect, so that it works while all connections
// of the pool are in use, or after it is closed.
//
// By default, a grant is durable when it is made, as far as the server's settings of
// fsync and synchronous_commit allow, and waiters are woken up by LISTEN and NOTIFY.
func New(pool *pgxpool.Pool, opts ...Option) *Engine {
	s := newDocuments(pool, opts)
	return &Engine{Engine: cas.New(s, callTimeout), documents: s}
}

// Leave implements engine.Engine. It closes the connections that are not in use.
func (e *Engine) Leave(client string) {
	e.Engine.Leave(client)
	if e.documents.connections != nil {
		e.documents.connections.closeIdle()
	}
}
