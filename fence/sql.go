package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// DefaultTable is the table in which SQL guards store the newest tokens.
const DefaultTable = "holdfast_fence"

// A Tx is a transaction of the caller: a *sql.Tx, a *sql.Conn in which the
// caller has begun one, or a transaction of pgx in [Pgx]. Claims refuse a
// *sql.DB with ErrInvalid: the row lock would end with the statement.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// sqlTx is a Tx of database/sql.
type sqlTx interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func queryRow(ctx context.Context, tx Tx, query string, args []any, dest ...any) error {
	switch tx := tx.(type) {
	case *pgxTx:
		return tx.row(ctx, query, args, dest)
	case sqlTx:
		return tx.QueryRowContext(ctx, query, args...).Scan(dest...)
	}
	return optionError("a %T cannot be queried: use database/sql or fence.Pgx", tx)
}

// An SQL guards rows of an SQL database inside the caller's transactions. It is
// safe for concurrent use.
//
// [SQL.Claim] guards anything under a resource's name, in a table of its own.
// [SQL.ClaimRow] and [SQL.Update] guard one row that has a column for the
// token.
//
// A claim locks its row until the transaction ends, and a rollback undoes it.
// So make the claim the first statement, and read after it. On MySQL and
// MariaDB this is required: under their default isolation, a transaction that
// has read before the claim continues to read that old snapshot. Data read in
// one transaction may be used in a later one that claims again, if the first
// was committed.
type SQL struct {
	dialect Dialect
	table   string
	err     error
}

// An SQLOption configures an SQL guard. Options are checked at the first use,
// which returns ErrInvalid if one is invalid.
type SQLOption func(*SQL)

// WithTable sets the table of the newest tokens (default "holdfast_fence"),
// with a schema or quotes if necessary.
func WithTable(name string) SQLOption { return func(g *SQL) { g.table = name } }

// NewSQL returns a guard for a database with the given dialect.
func NewSQL(d Dialect, opts ...SQLOption) *SQL {
	g := &SQL{dialect: d, table: DefaultTable, err: d.check()}
	for _, opt := range opts {
		if opt == nil {
			g.fail(optionError("an SQLOption is nil"))
			continue
		}
		opt(g)
	}
	g.fail(g.dialect.checkTable(g.table))
	return g
}

// claimTries is how often Do tries to claim.
const claimTries = 5

// Do begins a transaction, claims the token, calls fn and commits. It rolls
// back if the claim fails, or if fn returns an error or panics. The transaction
// has the default isolation of db. If the database aborts the claim, for
// example because of a deadlock, Do tries it up to five times; it calls fn at
// most once. Errors: those of fn, of Claim and of db.
func (g *SQL) Do(ctx context.Context, db *sql.DB, resource string, token uint64, fn func(tx *sql.Tx) error) error {
	tx, err := g.begin(ctx, db, resource, token)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return opError("commit for", resource, err)
	}
	return nil
}

// begin returns a transaction in which the claim is made. Nothing depends on it
// yet, so any failed try can be repeated. When the first claim of a resource is
// rolled back, MySQL and MariaDB abort all but one of the transactions that
// wait for it.
func (g *SQL) begin(ctx context.Context, db *sql.DB, resource string, token uint64) (*sql.Tx, error) {
	for try := 1; ; try++ {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			err = opError("begin for", resource, err)
		} else if err = g.Claim(ctx, tx, resource, token); err == nil {
			return tx, nil
		} else {
			_ = tx.Rollback() // the claim's error has more detail
		}
		final := errors.Is(err, ErrStale) || errors.Is(err, ErrToken) || errors.Is(err, ErrInvalid)
		if final || try == claimTries || ctx.Err() != nil {
			return nil, err
		}
	}
}

// Claim makes token the newest of a resource when tx commits, and until then
// prevents others from claiming it. The same token may claim again. Errors:
// ErrStale if a newer one was committed; ErrToken; ErrInvalid; those of the
// database. After any of them roll back. The database may abort any transaction
// with a deadlock or a serialization failure; then begin again.
func (g *SQL) Claim(ctx context.Context, tx Tx, resource string, token uint64) error {
	if err := g.ready(tx); err != nil {
		return err
	}
	if err := checkClaim(resource, token); err != nil {
		return err
	}
	query, args := g.raise(resource, token)
	res, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return opError("claim", resource, err)
	}
	raised, err := res.RowsAffected()
	if err != nil {
		return opError("claim", resource, err)
	}
	if g.dialect != MySQL && raised == 1 {
		return nil
	}
	// How MySQL counts rows depends on the connection, so read the row.
	newest, err := g.newest(ctx, tx, resource, g.dialect.locking())
	switch {
	case err != nil:
		return opError("claim", resource, err)
	case newest > token:
		return &StaleError{Resource: resource, Token: token, Newest: newest}
	case newest < token:
		return opError("claim", resource, fmt.Errorf("token %d was not stored: %s has %d", token, g.table, newest))
	}
	return nil
}

// ClaimAll claims several resources, such as those of Lease.Tokens for a Multi,
// in the order of their names, so that concurrent calls do not deadlock.
func (g *SQL) ClaimAll(ctx context.Context, tx Tx, tokens map[string]uint64) error {
	for _, resource := range slices.Sorted(maps.Keys(tokens)) {
		if err := g.Claim(ctx, tx, resource, tokens[resource]); err != nil {
			return err
		}
	}
	return nil
}

// raise returns the statement that stores the higher token and locks the row,
// whether or not the row exists.
func (g *SQL) raise(resource string, token uint64) (string, []any) {
	n := int64(token) // below 2^53
	switch g.dialect {
	case MySQL:
		return "INSERT INTO " + g.table + " (resource, token, claimed_at) VALUES (?, ?, CURRENT_TIMESTAMP)" +
				" ON DUPLICATE KEY UPDATE claimed_at = IF(token <= ?, CURRENT_TIMESTAMP, claimed_at), token = GREATEST(token, ?)",
			[]any{g.dialect.name(resource), n, n, n}
	default:
		return "INSERT INTO " + g.table + " AS f (resource, token, claimed_at)" +
				" VALUES (" + g.dialect.mark(1) + ", " + g.dialect.mark(2) + ", CURRENT_TIMESTAMP)" +
				" ON CONFLICT (resource) DO UPDATE SET token = excluded.token, claimed_at = excluded.claimed_at" +
				" WHERE f.token <= excluded.token",
			[]any{resource, n}
	}
}

// newest reads the newest token of a resource, and locks its row.
func (g *SQL) newest(ctx context.Context, tx Tx, resource, lock string) (uint64, error) {
	query := "SELECT token FROM " + g.table + " WHERE resource = " + g.dialect.mark(1) + lock
	var token int64
	err := queryRow(ctx, tx, query, []any{g.dialect.name(resource)}, &token)
	return uint64(token), err
}

// ready returns what is wrong with the guard or the transaction, or nil.
func (g *SQL) ready(tx Tx) error {
	if g.err != nil {
		return g.err
	}
	switch t := tx.(type) {
	case *sql.DB:
	case *pgxTx:
		if t.transaction {
			return nil
		}
	case sqlTx:
		return nil
	}
	return optionError("a claim needs a transaction: pass a *sql.Tx, a *sql.Conn with one begun, or a pgx.Tx in fence.Pgx")
}

func (g *SQL) fail(err error) {
	if g.err == nil {
		g.err = err
	}
}
