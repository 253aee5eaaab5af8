package fence

import (
	"context"
	"database/sql"
	"errors"
)

// ClaimShared is the claim of a reader of an RWMutex: it returns ErrStale if a
// newer writer has claimed, and until tx ends writers wait, and readers do not,
// unless the first claim of the resource is not committed yet.
// It does not make token the newest, so what was read is current until tx ends
// and no longer: an older writer, which was paused, may claim afterwards.
// Errors: those of Claim.
//
// On SQLite, where a transaction reads one state of the database, writers do not
// wait for it.
func (g *SQL) ClaimShared(ctx context.Context, tx Tx, resource string, token uint64) error {
	if err := g.ready(tx); err != nil {
		return err
	}
	if err := checkClaim(resource, token); err != nil {
		return err
	}
	if err := g.insert(ctx, tx, resource); err != nil {
		return opError("claim", resource, err)
	}
	newest, err := g.newest(ctx, tx, resource, g.dialect.sharing())
	switch {
	case g.dialect == SQLite && errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return opError("claim", resource, err)
	case newest > token:
		return &StaleError{Resource: resource, Token: token, Newest: newest}
	}
	return nil
}

// insert makes sure that a resource has a row that can be locked.
func (g *SQL) insert(ctx context.Context, tx Tx, resource string) error {
	values := " INTO " + g.table + " (resource, token, claimed_at) VALUES (" + g.dialect.mark(1) + ", 0, CURRENT_TIMESTAMP)"
	query := ""
	switch g.dialect {
	case PostgreSQL:
		query = "INSERT" + values + " ON CONFLICT (resource) DO NOTHING"
	case MySQL:
		query = "INSERT IGNORE" + values
	default:
		return nil // it would make the transaction a writer
	}
	_, err := tx.ExecContext(ctx, query, g.dialect.name(resource))
	return err
}
