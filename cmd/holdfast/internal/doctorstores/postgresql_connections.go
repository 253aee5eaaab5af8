package doctorstores

import (
	"context"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// engineConnections is how many connections an engine on PostgreSQL opens at most.
const engineConnections = 7

// connections compares the limits with what is used.
func (p *postgreSQL) connections(ctx context.Context) {
	c := p.check("connections")
	var used, ofUser, mostOfUser, ofDatabase, mostOfDatabase int
	err := p.row(ctx, `SELECT count(*), count(*) FILTER (WHERE usename = current_user), max((SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user)),
		count(*) FILTER (WHERE datname = current_database()), max((SELECT datconnlimit FROM pg_database WHERE datname = current_database()))
		FROM pg_stat_activity WHERE datid IS NOT NULL AND usesysid IS NOT NULL`, &used, &ofUser, &mostOfUser, &ofDatabase, &mostOfDatabase)
	most, err2 := strconv.Atoi(p.settings["max_connections"])
	if err != nil || err2 != nil {
		c.Unknown(diagnosis.Again, "the server does not disclose its connections")
		return
	}
	reserved, _ := strconv.Atoi(p.settings["superuser_reserved_connections"]) // 0 if it is unknown
	what := ""
	for _, limit := range []struct {
		name       string
		used, most int
	}{{"max_connections", used, most - reserved}, {"the user's CONNECTION LIMIT", ofUser, mostOfUser}, {"the database's CONNECTION LIMIT", ofDatabase, mostOfDatabase}} {
		if limit.most >= 0 && float64(limit.used+engineConnections) >= nearlyFull*float64(limit.most) && what == "" {
			what = limit.name
			c.With("used", limit.used).With("limit", limit.most).Warn("raise "+limit.name+", or make pools smaller: each process with an engine opens up to 7 connections",
				"%d of at most %d connections are in use (%s)", limit.used, limit.most, limit.name)
		}
	}
	if what == "" {
		c.With("used", used).With("limit", most-reserved).OK("%d of at most %d in use; an engine opens up to %d", used, most-reserved, engineConnections)
	}
}

// shortStatement is the shortest statement_timeout that does not end calls on a slow disk.
const shortStatement = time.Second

// timeouts checks for limits that end the engine's statements.
func (p *postgreSQL) timeouts() {
	for _, name := range []string{"statement_timeout", "transaction_timeout", "lock_timeout"} {
		ms, err := strconv.Atoi(p.settings[name])
		if limit := time.Duration(ms) * time.Millisecond; err == nil && limit > 0 && limit < shortStatement {
			p.check("timeouts").Warn("set "+name+" to 0 or some seconds for the user of the locks (ALTER ROLE … SET)",
				"%s is %s: a slow commit is cancelled, and repeated", name, diagnosis.Span(limit))
		}
	}
}
