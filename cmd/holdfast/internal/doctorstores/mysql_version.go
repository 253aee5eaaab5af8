package doctorstores

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// The first versions with what the tables need: keys of more than 767 bytes, in rows of the format DYNAMIC.
const (
	oldestMariaDB = "10.2"
	oldestMySQL   = "5.7"
	// testedMySQL is the first version of MySQL that Holdfast is tested on.
	testedMySQL = "8.0"
)

func (m *mySQL) version() {
	c := m.check("version")
	version := m.variable("version")
	name, oldest := "MySQL", oldestMySQL
	if strings.Contains(version, "MariaDB") {
		name, oldest = "MariaDB", oldestMariaDB
	}
	switch {
	case version == "":
		c.Unknown("check that it is MariaDB 10.2 or newer", "the server does not disclose its version")
	case diagnosis.Older(version, oldest):
		c.With("version", version).Fail("upgrade to MariaDB 10.2 or MySQL 5.7, or newer", "%s %s is too old", name, version)
	case name == "MySQL" && diagnosis.Older(version, testedMySQL):
		c.With("version", version).Warn("use MySQL 8 or MariaDB, or run the conformance suite (engine/enginetest) on it first", "%s %s is not among what Holdfast is tested on", name, version)
	default:
		c.With("version", version).OK("%s %s", name, version)
	}
}

// mode checks that the server takes changes, and takes them from nobody else.
func (m *mySQL) mode(ctx context.Context) {
	c := m.check("mode")
	for _, name := range []string{"read_only", "super_read_only", "innodb_read_only", "tx_read_only", "transaction_read_only"} {
		if m.variables[name] == "ON" {
			c.Fail("connect to the primary, or set "+name+" = 0 if this is the one", "%s: the server takes no changes, or only from administrators", name)
			return
		}
	}
	switch copies := m.channels(ctx); {
	case copies.mutual:
		c.Warn("let all clients use one of the two servers, by one address that moves, and set read_only = 1 on the other one",
			"this server copies one that copies it (master to master): clients of both may hold one resource")
	case copies.running:
		c.Fail("connect to the primary, and set read_only = 1 here", "this is a replica that takes changes (read_only is off): its leases are unknown to the primary")
	case copies.exist:
		c.Warn("RESET REPLICA ALL if it was promoted; otherwise connect to the primary, and set read_only = 1 here",
			"this server has copied another one, and has stopped: if that is the primary, it does not know the leases of this one")
	default:
		c.OK("it takes changes, and is no replica")
	}
}

// channels are those by which the server copies others.
type channels struct {
	exist, running bool
	mutual         bool // the server that is copied copies this one
}

// channels returns them as far as the user may see them.
func (m *mySQL) channels(ctx context.Context) (c channels) {
	if number(m.status, "slaves_running") > 0 { // MariaDB shows it to everybody
		c.exist, c.running = true, true
	}
	replicas, _ := m.rows(ctx, "SHOW REPLICAS", "SHOW SLAVE HOSTS")
	all, _ := m.rows(ctx, "SHOW ALL SLAVES STATUS", "SHOW REPLICA STATUS", "SHOW SLAVE STATUS")
	for _, r := range all {
		get := func(name string) string { return cmp.Or(r["replica_"+name], r["slave_"+name]) }
		runs := get("io_running") != "No" || get("sql_running") != "No"
		c.exist, c.running = true, c.running || runs
		source := cmp.Or(r["source_server_id"], r["master_server_id"])
		c.mutual = c.mutual || runs && slices.ContainsFunc(replicas, func(r map[string]string) bool { return r["server_id"] == source })
	}
	return c
}

// rows reads rows by the names of their columns, in lower case. Of several queries it uses the first that the server knows and the user may run.
func (m *mySQL) rows(ctx context.Context, queries ...string) ([]map[string]string, error) {
	var rows *sql.Rows
	var err error
	for _, query := range queries {
		if rows, err = m.db.QueryContext(ctx, query); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var all []map[string]string
	for rows.Next() {
		values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		row := map[string]string{}
		for i, name := range columns {
			row[strings.ToLower(name)] = values[i].String
		}
		all = append(all, row)
	}
	return all, rows.Err()
}

// isolation reports what has no effect, and checks what has.
func (m *mySQL) isolation() {
	c := m.check("isolation")
	if m.variables["autocommit"] == "OFF" {
		c.Fail("remove autocommit=0 from the URL and from init_connect", "autocommit is off, and the engine needs it")
		return
	}
	c.OK("%s, which has no effect: every statement is a transaction", strings.ToLower(m.variable("transaction_isolation", "tx_isolation")))
}

// leastPacket is as much as a document of 512 KiB takes as text, and more.
const leastPacket = 2 << 20

// packets checks that the largest document can be sent.
func (m *mySQL) packets() {
	if n := number(m.variables, "max_allowed_packet"); n >= 0 && n < leastPacket {
		m.check("packets").With("max_allowed_packet", n).Warn("set max_allowed_packet = 16M", "max_allowed_packet %d: a resource with some thousand waiters cannot be written", n)
	}
}
