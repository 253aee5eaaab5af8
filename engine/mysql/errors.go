package mysql

import (
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/engine"
)

// number returns the server's number of an error, or 0.
func number(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

// Numbers of errors; the servers name them so.
const (
	dupEntry        = 1062
	syntaxError     = 1064
	lockWaitTimeout = 1205
	lockDeadlock    = 1213
)

// takesNoChanges is an expression that is true of a server that takes no changes, as one does that is a replica by now: what
// it reads may be old. read_only is a number, and a word from MariaDB 12 on.
const takesNoChanges = `(@@global.read_only NOT IN ('0', 'OFF') OR @@global.innodb_read_only)`

var errReadOnly = fmt.Errorf("%w: the server is read-only", engine.ErrUnavailable)

// readOnly reports whether the server takes no changes.
func readOnly(err error) bool {
	switch number(err) {
	case 1290, 1792, 1836: // --read-only, a transaction, innodb_read_only
		return true
	}
	return errors.Is(err, errReadOnly)
}

// explained returns an error with what to do about it.
func explained(err error) error {
	advice := ""
	switch number(err) {
	case 1146, 1054: // table, column
		advice = "the tables are missing: run mysql.Migrate, or apply the statements that mysql.Schema returns"
	case 1044, 1142, 1143, 1227: // database, table, column, privilege
		advice = "the user needs SELECT, INSERT, UPDATE and DELETE on the tables holdfast1_document and holdfast1_wake, and CREATE for Migrate"
	case 1045, 1698, 1820: // password, plugin, expired password
		advice = "the server refuses the user or the password"
	case 1046, 1049: // none, unknown
		advice = "the data source name must have a database that exists"
	case 1193, 1231: // unknown, its value
		advice = "the data source name sets a variable that the server does not have, or to a value that it does not take"
	case 1021, 1114: // disk, tablespace
		return fmt.Errorf("make room on the server's disk, or raise the limit of its tablespace: %w", err)
	default:
		return err
	}
	return fmt.Errorf("%w: %s (%w)", engine.ErrDenied, advice, err)
}
