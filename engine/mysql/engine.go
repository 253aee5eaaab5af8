package mysql

import (
	"database/sql"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
)

// An Engine keeps queues of leases in tables of a MySQL or MariaDB server. It need not be closed,
// and has no goroutines while it is not used. Close its clients before the database.
type Engine struct {
	*cas.Engine
}

var (
	_ engine.MarkLister = (*Engine)(nil)
	_ engine.Checker    = (*Engine)(nil)
)

// An Option changes an Engine.
type Option func(*options)

type options struct {
	timeout time.Duration
}

// WithTimeout bounds one call of the engine whose ctx does not end sooner. The default is
// cas.DefaultTimeout.
func WithTimeout(d time.Duration) Option {
	return func(o *options) { o.timeout = d }
}

// New returns an engine on a database whose tables Migrate has made. It uses at most six connections of
// db at a time, each for one statement, and works with one.
func New(db *sql.DB, opts ...Option) *Engine {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	return &Engine{Engine: cas.New(newStore(db), o.timeout)}
}

var errNoDatabase = errors.New("mysql: New was called with a nil *sql.DB")

// Check reports a nil database; see engine.Checker.
func (s *tableStore) Check() error {
	if s.db == nil {
		return errNoDatabase
	}
	return nil
}
