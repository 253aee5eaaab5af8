package mysql

import (
	"database/sql"

	"github.com/holdfast-go/holdfast/engine/cas"
)

// NewStore returns the store under an engine.
func NewStore(db *sql.DB) cas.DocumentStore { return newStore(db) }

// NewStoreOfSessions returns a store that limits the waits of sessions, as on MySQL, and not of statements.
func NewStoreOfSessions(db *sql.DB) cas.DocumentStore {
	s := newStore(db)
	s.inspected.Store(true)
	return s
}
