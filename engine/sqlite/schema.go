package sqlite

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
)

//go:embed schema.sql
var schema string

// Schema returns the statements that make the tables, for those who apply them by themselves. They may be
// applied again.
func Schema() string { return schema }

// Migrate makes the tables of the engine, if they are missing, and sets the database's journal mode to WAL.
// It may be called by several processes at the same time, and again.
func Migrate(ctx context.Context, db *sql.DB) error {
	s := newStore(db)
	err := s.do(ctx, s.writing, func(c *lentConnection) error { return c.exec(schema) })
	if err != nil {
		return fmt.Errorf("sqlite: migrate: %w", err)
	}
	return nil
}
