package doctorstores

import (
	"context"
	"strconv"
)

// oldestPostgreSQL is the first version that the engine's statements run on, of which one says AS MATERIALIZED.
const oldestPostgreSQL = 12

func (p *postgreSQL) version() {
	const check = "version"
	n, err := strconv.Atoi(p.settings["server_version_num"])
	version := p.settings["server_version"]
	switch {
	case err != nil:
		p.add(p.Unknown(check, "check that it is PostgreSQL 12 or newer", "the server does not disclose its version"))
	case p.settings["crdb_version"] != "":
		p.add(p.Warn(check, "use PostgreSQL, or run the conformance suite (engine/enginetest) on it first", "CockroachDB is not among what Holdfast is tested on"))
	case n/10000 < oldestPostgreSQL:
		p.add(p.Fail(check, "upgrade to PostgreSQL 12 or newer", "PostgreSQL %s is too old", version).With("version", version))
	default:
		p.add(p.OK(check, "PostgreSQL %s", version).With("version", version))
	}
}

// mode checks that the server takes changes.
func (p *postgreSQL) mode(ctx context.Context) {
	const check = "mode"
	if err := p.row(ctx, "SELECT pg_is_in_recovery()", &p.standby); err != nil {
		p.unasked(check, again, err)
		return
	}
	switch {
	case p.standby:
		p.add(p.Fail(check, "give the URL of the primary, or all hosts and target_session_attrs=read-write", "this is a standby, which is never used: it takes no changes, and what it has may be old"))
	case p.settings["default_transaction_read_only"] == "on":
		p.add(p.Fail(check, "set default_transaction_read_only to off, for the server, the database and the user", "transactions are read-only (default_transaction_read_only)"))
	default:
		p.add(p.OK(check, "a primary, which takes changes"))
	}
}

// isolation reports the default isolation level, of which the engine does not depend.
func (p *postgreSQL) isolation() {
	const check = "isolation"
	if level := p.settings["default_transaction_isolation"]; level != "read committed" {
		p.add(p.OK(check, "%s by default; the engine begins its transactions as read committed, which costs a statement", level))
		return
	}
	p.add(p.OK(check, "read committed"))
}
