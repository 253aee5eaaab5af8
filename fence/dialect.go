package fence

import (
	"regexp"
	"strconv"
	"strings"
)

// A Dialect is the SQL dialect of a database.
type Dialect uint8

// The dialects.
const (
	// PostgreSQL has $1, $2 … as parameters.
	PostgreSQL Dialect = iota + 1
	// MySQL also serves MariaDB. Its parameters are ?; tables must use InnoDB.
	MySQL
	// SQLite, 3.24 or later, has ? as parameters.
	SQLite
)

func (d Dialect) String() string {
	switch d {
	case PostgreSQL:
		return "PostgreSQL"
	case MySQL:
		return "MySQL"
	case SQLite:
		return "SQLite"
	}
	return "unknown dialect"
}

func (d Dialect) check() error {
	if d < PostgreSQL || d > SQLite {
		return optionError("dialect %d: use PostgreSQL, MySQL or SQLite", d)
	}
	return nil
}

// mark returns the n-th parameter of a statement, from 1.
func (d Dialect) mark(n int) string {
	if d == PostgreSQL {
		return "$" + strconv.Itoa(n)
	}
	return "?"
}

// locking returns the end of a SELECT that reads and locks the newest version
// of a row. SQLite locks the whole database for a writer.
func (d Dialect) locking() string {
	if d == SQLite {
		return ""
	}
	return " FOR UPDATE"
}

// sharing is locking for several readers at a time, but no writer. MariaDB has no FOR SHARE.
func (d Dialect) sharing() string {
	switch d {
	case PostgreSQL:
		return " FOR SHARE"
	case MySQL:
		return " LOCK IN SHARE MODE"
	}
	return ""
}

// name returns the parameter for the name of a resource. MySQL's column is binary.
func (d Dialect) name(resource string) any {
	if d == MySQL {
		return []byte(resource)
	}
	return resource
}

var (
	plainName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_$]*$`)
	quotedName   = regexp.MustCompile(`^"[^"\x00]+"$`)
	backtickName = regexp.MustCompile("^`[^`\x00]+`$")
)

const maxIdentifier = 64 // bytes, as in MySQL; PostgreSQL cuts at 63

// checkTable accepts a name, or a schema and a name separated by a dot.
func (d Dialect) checkTable(name string) error {
	schema, table, ok := strings.Cut(name, ".")
	if !ok {
		return d.checkName("table", name)
	}
	if err := d.checkName("schema", schema); err != nil {
		return err
	}
	return d.checkName("table", table)
}

// checkName accepts an identifier as it is written in a statement: plain, or in
// the dialect's quotes. It is used unchanged, so that the database treats case and
// reserved words as in the caller's statements.
func (d Dialect) checkName(what, name string) error {
	quoted := quotedName
	if d == MySQL {
		quoted = backtickName
	}
	if len(name) > maxIdentifier || !plainName.MatchString(name) && !quoted.MatchString(name) {
		return optionError("%s %q: use letters, digits and _, or a quoted name, of at most %d bytes", what, name, maxIdentifier)
	}
	return nil
}
