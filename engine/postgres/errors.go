package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/engine"
)

// errStandby is returned by a server that is no primary: what it has may be old.
var errStandby = errors.New("postgres: the server is a standby; connect to the primary, for example with target_session_attrs=read-write")

var errNoPool = errors.New("postgres: New was called with a nil pool")

// failure returns an error of the server as cas expects it, with what to do about it.
func failure(err error, o options) error {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if err == nil || !ok {
		return err
	}
	hint := ""
	switch {
	case pg.Code == "42P01" || pg.Code == "42703" || pg.Code == "3F000":
		hint = "the table " + o.table() + " is missing or is another one: run Migrate, or apply the SQL that Schema returns (holdfast migrate)"
	case pg.Code == "42501":
		hint = "the user needs USAGE on the schema and SELECT, INSERT, UPDATE, DELETE on " + o.table()
	case pg.Code == "3D000":
		hint = "create the database, or correct its name"
	case strings.HasPrefix(pg.Code, "28"):
		hint = "check the user, the password and pg_hba.conf"
	case pg.Code == "53100":
		return fmt.Errorf("postgres: make room on the server's disk: %w", err)
	default:
		return err
	}
	return fmt.Errorf("%w: postgres: %s: %w", engine.ErrDenied, hint, err)
}

func code(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

const lockTimeout = "55P03"

// aborted reports whether the server aborted a transaction that can be run again: a
// serialization failure, a deadlock, a lock timeout.
func aborted(err error) bool {
	switch code(err) {
	case "40001", "40P01", lockTimeout:
		return true
	}
	return false
}

// unprepared reports whether a pooler passed a statement to a server that does not have it, or
// that has it already.
func unprepared(err error) bool {
	c := code(err)
	return c == "26000" || c == "42P05"
}

// leaveServer reports whether other connections to this server are useless as well: it is read
// only, shuts down, or is gone.
func leaveServer(err error) bool {
	c := code(err)
	return c == "" || c == "25006" || strings.HasPrefix(c, "57P")
}
