package doctorstores

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// postgreSQL is a server and its answers.
type postgreSQL struct {
	examination
	pool     *pgxpool.Pool
	conn     *pgxpool.Conn
	settings map[string]string // as they are in this session
	standby  bool
}

// PostgreSQL examines the server of a pool. It needs one connection of it, and opens a few of its own.
func PostgreSQL(ctx context.Context, s Subject, pool *pgxpool.Pool) []diagnosis.Finding {
	p := &postgreSQL{examination: examination{Subject: s}, pool: pool}
	defer func() {
		if p.conn != nil {
			p.conn.Release()
		}
	}()
	if !p.reach(ctx, "PostgreSQL", pgRefused, p.ping) {
		return p.findings
	}
	asks, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	p.ask(asks)
	p.version()
	p.mode(asks)
	p.clock(func() (now time.Time, err error) {
		err = p.row(asks, "SELECT clock_timestamp()", &now)
		return now, err
	})
	p.hosts(asks)
	p.durability()
	p.connections(asks)
	if p.standby {
		return p.findings // the other checks are about a primary
	}
	p.replication(asks)
	p.isolation()
	p.timeouts()
	p.notifications(asks)
	if p.schema(asks) && p.rights(asks) {
		p.bloat(asks)
		p.try(ctx, "see the finding about notifications")
	}
	p.ttl()
	return p.findings
}

func (p *postgreSQL) ping(ctx context.Context) (err error) {
	if p.conn == nil {
		if p.conn, err = p.pool.Acquire(ctx); err != nil {
			return err
		}
	}
	var one int
	return p.row(ctx, "SELECT 1", &one)
}

// row reads the only row of a query, which is not prepared: there may be a pooler.
func (p *postgreSQL) row(ctx context.Context, sql string, into ...any) error {
	return p.conn.QueryRow(ctx, sql, pgx.QueryExecModeExec).Scan(into...)
}

func (p *postgreSQL) exec(ctx context.Context, sql string) error {
	_, err := p.conn.Exec(ctx, sql, pgx.QueryExecModeExec)
	return err
}

// ask reads the settings.
func (p *postgreSQL) ask(ctx context.Context) {
	p.settings = map[string]string{}
	rows, err := p.conn.Query(ctx, "SELECT name, setting FROM pg_settings", pgx.QueryExecModeExec)
	if err == nil {
		var name, value string
		_, err = pgx.ForEachRow(rows, []any{&name, &value}, func() error {
			p.settings[name] = value
			return nil
		})
	}
	if err != nil {
		p.check("settings").Unanswered(err)
	}
}

// pgCode returns the SQLSTATE of an error, or "".
func pgCode(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

// pgRefused reports whether the server refuses the user or the database.
func pgRefused(err error) bool {
	code := pgCode(err)
	return strings.HasPrefix(code, "28") || code == "42501" || code == "3D000"
}
