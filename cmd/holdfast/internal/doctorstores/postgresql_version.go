package doctorstores

import (
	"context"
	"strconv"
)

// oldestPostgreSQL is the first version that the engine's statements run on, of which one says AS MATERIALIZED.
const oldestPostgreSQL = 12

func (p *postgreSQL) version() {
	c := p.check("version")
	n, err := strconv.Atoi(p.settings["server_version_num"])
	version := p.settings["server_version"]
	switch {
	case err != nil:
		c.Unknown("check that it is PostgreSQL 12 or newer", "the server does not disclose its version")
	case p.settings["crdb_version"] != "":
		c.Warn("use PostgreSQL, or run the conformance suite (engine/enginetest) on it first", "CockroachDB is not among what Holdfast is tested on")
	case n/10000 < oldestPostgreSQL:
		c.With("version", version).Fail("upgrade to PostgreSQL 12 or newer", "PostgreSQL %s is too old", version)
	default:
		c.With("version", version).OK("PostgreSQL %s", version)
	}
}

// mode checks that the server takes changes.
func (p *postgreSQL) mode(ctx context.Context) {
	c := p.check("mode")
	if err := p.row(ctx, "SELECT pg_is_in_recovery()", &p.standby); c.Unanswered(err) {
		return
	}
	switch {
	case p.standby:
		c.Fail("give the URL of the primary, or all hosts and target_session_attrs=read-write", "this is a standby, which is never used: it takes no changes, and what it has may be old")
	case p.settings["default_transaction_read_only"] == "on":
		c.Fail("set default_transaction_read_only to off, for the server, the database and the user", "transactions are read-only (default_transaction_read_only)")
	default:
		c.OK("a primary, which takes changes")
	}
}

// isolation reports the default isolation level, of which the engine does not depend.
func (p *postgreSQL) isolation() {
	c := p.check("isolation")
	if level := p.settings["default_transaction_isolation"]; level != "read committed" {
		c.OK("%s by default; the engine begins its transactions as read committed, which costs a statement", level)
		return
	}
	c.OK("read committed")
}
