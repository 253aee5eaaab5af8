package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver
)

// auditSQL are the statements of an audit: the server keeps each version of a document with a time of its clock, in the
// transaction that makes it. So the audit has all versions that were committed, and no other, also if the server was
// killed. The time is before the commit.
type auditSQL struct {
	installed string   // returns 0 if the audit is missing
	install   []string // makes it
	clear     string   // forgets what is in it
	read      string   // returns time in microseconds since 1970, key and value of each version, in their order
}

// postgresAudit has a trigger that copies each version. It runs when the row is locked.
var postgresAudit = auditSQL{
	installed: `SELECT count(*) FROM pg_trigger WHERE tgname = 'lab_audit'`,
	install: []string{
		`CREATE TABLE IF NOT EXISTS lab_audit (n bigserial PRIMARY KEY, at bigint NOT NULL, prefix bytea NOT NULL, name bytea NOT NULL, value bytea)`,
		`CREATE OR REPLACE FUNCTION lab_audit() RETURNS trigger LANGUAGE plpgsql AS $$
		DECLARE r holdfast1_doc;
		BEGIN
			IF TG_OP = 'DELETE' THEN
				r := OLD;
				r.value := NULL;
			ELSE
				r := NEW;
			END IF;
			IF r.space = 'r' THEN
				INSERT INTO lab_audit (at, prefix, name, value)
				VALUES ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint, r.prefix, r.name, r.value);
			END IF;
			RETURN NULL;
		END $$`,
		`CREATE TRIGGER lab_audit AFTER INSERT OR DELETE OR UPDATE OF value ON holdfast1_doc FOR EACH ROW EXECUTE FUNCTION lab_audit()`,
	},
	clear: `TRUNCATE lab_audit`,
	read: `SELECT at, set_byte(set_byte('\x720000', 1, length(prefix) / 256), 2, length(prefix) % 256) || prefix || name, value
		FROM lab_audit ORDER BY n`,
}

// mariaAudit makes the table of documents one with system versioning: MariaDB keeps each row that was replaced or deleted,
// with the time at which the statements began that made and ended it. A statement that begins before another one has ended
// cannot replace its row, since it needs the row's revision. A trigger would change what the engine reads with its own
// statement.
var mariaAudit = auditSQL{
	installed: `SELECT count(*) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = 'holdfast1_document' AND table_type = 'SYSTEM VERSIONED'`,
	install:   []string{`ALTER TABLE holdfast1_document ADD SYSTEM VERSIONING`},
	clear:     `DELETE HISTORY FROM holdfast1_document`,
	read: `SELECT CAST(UNIX_TIMESTAMP(row_start) * 1000000 AS SIGNED) AS at, k, value FROM holdfast1_document FOR SYSTEM_TIME ALL
		UNION ALL
		SELECT CAST(UNIX_TIMESTAMP(row_end) * 1000000 AS SIGNED), k, NULL FROM holdfast1_document FOR SYSTEM_TIME ALL AS d
		WHERE row_end <= SYSDATE(6) AND NOT EXISTS (
			SELECT 1 FROM holdfast1_document FOR SYSTEM_TIME ALL AS next WHERE next.k = d.k AND next.row_start = d.row_end)
		ORDER BY at`,
}

// RecordPostgres has a PostgreSQL, of which it gets the DSN, record the documents.
func (l *Ledger) RecordPostgres(ctx context.Context, dsn string) (Recording, error) {
	db, err := sql.Open("pgx", dsn)
	if err != nil {
		return nil, err
	}
	return l.audit(ctx, db, postgresAudit)
}

// RecordMariaDB has a database, which a user without a password can change, record the documents.
func (l *Ledger) RecordMariaDB(ctx context.Context, addr, user, database string) (Recording, error) {
	conf := mysql.NewConfig()
	conf.User, conf.Net, conf.Addr, conf.DBName = user, "tcp", addr, database
	connector, err := mysql.NewConnector(conf)
	if err != nil {
		return nil, err
	}
	return l.audit(ctx, sql.OpenDB(connector), mariaAudit)
}

// audit is a Ledger that a server writes.
type audit struct {
	ledger *Ledger
	db     *sql.DB
	auditSQL
}

// audit begins an audit. It closes the database when it ends.
func (l *Ledger) audit(ctx context.Context, db *sql.DB, with auditSQL) (Recording, error) {
	db.SetMaxIdleConns(-1) // the server may be restarted
	a := &audit{l, db, with}
	if err := a.begin(ctx); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("ledger: audit: %w", err)
	}
	return a, nil
}

func (a *audit) begin(ctx context.Context) error {
	var triggers int
	if err := a.db.QueryRowContext(ctx, a.installed).Scan(&triggers); err != nil {
		return err
	}
	if triggers == 0 {
		for _, statement := range a.install {
			if _, err := a.db.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
	}
	_, err := a.db.ExecContext(ctx, a.clear)
	return err
}

// Close implements Recording.
func (a *audit) Close(ctx context.Context) error {
	defer a.db.Close()
	rows, err := a.db.QueryContext(ctx, a.read)
	if err != nil {
		return fmt.Errorf("ledger: audit: %w", err)
	}
	defer rows.Close()
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	for rows.Next() {
		var at int64
		var key, value []byte
		if err := rows.Scan(&at, &key, &value); err != nil {
			return fmt.Errorf("ledger: audit: %w", err)
		}
		if name, ok := a.ledger.documentName(key); ok {
			made := instant(time.Duration(at)*time.Microsecond - a.ledger.start)
			a.ledger.apply(version{resource: name, made: made, counted: made, value: value})
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("ledger: audit: %w", err)
	}
	return nil
}

// documentName returns the name of the resource of a row's key: a byte for the space, two for the length of the prefix, the
// prefix, and the name. ok is false if the row is another one.
func (l *Ledger) documentName(key []byte) (name string, ok bool) {
	size := len(l.prefix)
	return strings.CutPrefix(string(key), "r"+string([]byte{byte(size >> 8), byte(size)})+l.prefix)
}
