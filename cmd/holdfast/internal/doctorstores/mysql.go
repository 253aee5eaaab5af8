package doctorstores

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// mySQL is a server of MySQL or MariaDB, and its answers.
type mySQL struct {
	examination
	db        *sql.DB
	variables map[string]string // of this session, in lower case
	status    map[string]string // SHOW GLOBAL STATUS, in lower case
}

// MySQL examines the server of a database.
func MySQL(ctx context.Context, s Subject, db *sql.DB) []diagnosis.Finding {
	m := &mySQL{examination: examination{Subject: s}, db: db}
	if !m.reach(ctx, "MySQL or MariaDB", mysqlRefused, db.PingContext) {
		return m.findings
	}
	asks, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	m.ask(asks)
	m.version()
	m.mode(asks)
	m.clock(func() (time.Time, error) {
		var us int64
		err := db.QueryRowContext(asks, "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))").Scan(&us)
		return time.UnixMicro(us), err
	})
	m.durability()
	m.replication(asks)
	m.galera()
	m.isolation()
	m.packets()
	m.connections()
	if m.schema(asks) && m.rights(asks) {
		m.bloat(asks)
		m.try(ctx, "look at the server's load: messages are rows of holdfast1_wake, which waiters read")
	}
	m.ttl()
	return m.findings
}

// ask reads the variables and the counters.
func (m *mySQL) ask(ctx context.Context) {
	var err, err2 error
	m.variables, err = m.table(ctx, "SHOW VARIABLES")
	m.status, err2 = m.table(ctx, "SHOW GLOBAL STATUS")
	if err := errors.Join(err, err2); err != nil {
		m.check("settings").Unanswered(err)
	}
}

// table reads rows of names and values.
func (m *mySQL) table(ctx context.Context, query string) (map[string]string, error) {
	all := map[string]string{}
	rows, err := m.db.QueryContext(ctx, query)
	if err != nil {
		return all, err
	}
	defer rows.Close()
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return all, err
		}
		all[strings.ToLower(name)] = value
	}
	return all, rows.Err()
}

// variable returns the first of several variables that the server has.
func (m *mySQL) variable(names ...string) string {
	for _, name := range names {
		if v, ok := m.variables[name]; ok {
			return v
		}
	}
	return ""
}

// number returns a variable or a counter, or -1.
func number(all map[string]string, name string) int64 {
	n, err := strconv.ParseInt(all[name], 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// mysqlCode returns the server's number of an error, or 0.
func mysqlCode(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

// mysqlRefused reports whether the server refuses the user or the database.
func mysqlRefused(err error) bool {
	return slices.Contains([]uint16{1044, 1045, 1046, 1049, 1130, 1698, 1820}, mysqlCode(err))
}

// mysqlLacksRight reports whether the user may not run a statement.
func mysqlLacksRight(err error) bool {
	return slices.Contains([]uint16{1044, 1142, 1143, 1227}, mysqlCode(err))
}
