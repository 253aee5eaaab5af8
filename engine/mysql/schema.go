package mysql

import (
	"context"
	"database/sql"
	_ "embed"
	"fmt"
	"strings"
)

//go:embed schema.sql
var schema string

// Schema returns the statements that make the tables, for those who apply them by themselves. They may be
// applied again.
func Schema() string { return schema }

// Migrate makes the tables of the engine in the database that db uses, if they are missing. It needs the right to
// create tables; the engine needs SELECT, INSERT, UPDATE and DELETE.
func Migrate(ctx context.Context, db *sql.DB) error {
	for statement := range strings.SplitSeq(schema, ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("mysql: migrate: %w", explained(err))
		}
	}
	return nil
}
