package mysql

import (
	"database/sql"

	"github.com/holdfast-go/holdfast/engine/cas"
)

// NewStore returns the store under an engine.
func NewStore(db *sql.DB) cas.DocumentStore { return newStore(db) }
