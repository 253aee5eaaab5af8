package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// DefaultColumn is the column of the caller's row that contains the newest
// token.
const DefaultColumn = "fence"

// A Row identifies one row of the caller's table, which has a column for the
// newest token: fence BIGINT NULL. On MySQL and MariaDB the table must use
// InnoDB. Identifiers are put into statements unchanged; quote them in the
// dialect's way if they are reserved words.
type Row struct {
	// Table is the table of the row, with its schema if necessary.
	Table string
	// Key selects the row: column names with their values. They must identify
	// one row, as the primary key does.
	Key map[string]any
	// Column contains the token. Default "fence".
	Column string
}

func (r Row) column() string {
	if r.Column == "" {
		return DefaultColumn
	}
	return r.Column
}

// ClaimRow makes token the newest of a row when tx commits, and until then
// prevents others from claiming it: what is read from the row afterwards is
// current. The same token may claim again. Errors: ErrStale if a newer one was
// committed; sql.ErrNoRows if the row does not exist; ErrToken; ErrInvalid;
// those of the database. After any of them roll back.
func (g *SQL) ClaimRow(ctx context.Context, tx Tx, row Row, token uint64) error {
	return g.Update(ctx, tx, row, token, "")
}

// Update changes a row and stores the token in it, unless the row has a newer
// one:
//
//	row := fence.Row{Table: "stock", Key: map[string]any{"id": 42}}
//	err := guard.Update(ctx, tx, row, lease.Token(), "amount = amount - ?", 1)
//
// set is the text after SET, with the dialect's parameters ($1 … or ?) for
// args. Update changes the row or returns an error, as ClaimRow does. If the
// change depends on what was read, call ClaimRow before the read: a condition
// on the write alone can lose an update.
func (g *SQL) Update(ctx context.Context, tx Tx, row Row, token uint64, set string, args ...any) error {
	if err := g.readyForRow(tx, row, token); err != nil {
		return err
	}
	query, all := g.update(row, token, set, args)
	for tries := 2; tries > 0; tries-- {
		n, err := affected(tx.ExecContext(ctx, query, all...))
		switch {
		case err != nil:
			return opError("update", row.Table, err)
		case n > 1:
			return opError("update", row.Table, fmt.Errorf("%w: Key matches %d rows", ErrInvalid, n))
		case n == 1:
			return nil
		}
		if err := g.explain(ctx, tx, row, token); err != nil {
			return err
		}
		// Either MySQL found nothing to change, and finds nothing the second time, or
		// the row was inserted between the two statements, and is locked now.
	}
	if g.dialect != MySQL {
		return opError("update", row.Table, errors.New("the database did not change the row and returned no reason: check triggers and row policies"))
	}
	return nil
}

// Guard returns the condition for hand-written statements, which [SQL.Exec]
// executes:
//
//	cond, err := guard.Guard("fence", 3) // (fence IS NULL OR fence <= $3)
//	query := "UPDATE stock SET amount = amount - $1, fence = $3 WHERE id = $2 AND amount >= $1 AND " + cond
//	res, err := guard.Exec(ctx, tx, row, token, query, 1, 42, int64(token))
//
// position is the number of the parameter for the token; dialects with ? ignore
// it. Error: ErrInvalid.
func (g *SQL) Guard(column string, position int) (string, error) {
	if g.err != nil {
		return "", g.err
	}
	if err := g.dialect.checkName("column", column); err != nil {
		return "", err
	}
	if position < 1 {
		return "", optionError("position %d: parameters are counted from 1", position)
	}
	return "(" + column + " IS NULL OR " + column + " <= " + g.dialect.mark(position) + ")", nil
}

// Exec executes a statement of the caller that changes a row under the
// condition of [SQL.Guard]. If it changed nothing, Exec reads the row and
// returns ErrStale or sql.ErrNoRows if that is the reason. A result of 0 rows
// without an error means that another condition of the statement was false or,
// on MySQL, that the row already had these values. Other errors are those of
// ClaimRow.
func (g *SQL) Exec(ctx context.Context, tx Tx, row Row, token uint64, query string, args ...any) (sql.Result, error) {
	if err := g.readyForRow(tx, row, token); err != nil {
		return nil, err
	}
	res, err := tx.ExecContext(ctx, query, args...)
	n, err := affected(res, err)
	if err != nil {
		return nil, opError("update", row.Table, err)
	}
	if n == 0 {
		if err := g.explain(ctx, tx, row, token); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// update returns the guarded UPDATE. Parameters without numbers must be in the
// order of the text.
func (g *SQL) update(row Row, token uint64, set string, args []any) (string, []any) {
	if set != "" {
		set += ", "
	}
	column, all := row.column(), append(slices.Clone(args), int64(token))
	query := "UPDATE " + row.Table + " SET " + set + column + " = " + g.dialect.mark(len(all))
	where, all := g.find(row, all)
	all = append(all, int64(token))
	return query + where + " AND (" + column + " IS NULL OR " + column + " <= " + g.dialect.mark(len(all)) + ")", all
}

// find appends the WHERE of a row.
func (g *SQL) find(row Row, args []any) (string, []any) {
	var where []string
	for _, column := range slices.Sorted(maps.Keys(row.Key)) {
		args = append(args, row.Key[column])
		where = append(where, column+" = "+g.dialect.mark(len(args)))
	}
	return " WHERE " + strings.Join(where, " AND "), args
}

// explain locks a row and returns why a guarded statement did not match it, if
// the token or the row is the reason.
func (g *SQL) explain(ctx context.Context, tx Tx, row Row, token uint64) error {
	where, args := g.find(row, nil)
	var newest sql.NullInt64
	err := queryRow(ctx, tx, "SELECT "+row.column()+" FROM "+row.Table+where+g.dialect.locking(), args, &newest)
	switch {
	case err != nil:
		return opError("update", row.Table, err) // sql.ErrNoRows too
	case newest.Valid && newest.Int64 > int64(token):
		return &StaleError{Resource: row.Table, Token: token, Newest: uint64(newest.Int64)}
	}
	return nil
}

func (g *SQL) readyForRow(tx Tx, row Row, token uint64) error {
	if err := g.ready(tx); err != nil {
		return err
	}
	if err := g.dialect.checkTable(row.Table); err != nil {
		return err
	}
	if err := g.dialect.checkName("column", row.column()); err != nil {
		return err
	}
	if len(row.Key) == 0 {
		return optionError("the Row has no Key: name the columns that identify it")
	}
	for column := range row.Key {
		if err := g.dialect.checkName("column", column); err != nil {
			return err
		}
	}
	return checkToken(token)
}

func affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}
