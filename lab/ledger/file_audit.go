package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	_ "modernc.org/sqlite" // the driver
)

// lookEvery is the pause between two looks at a file of SQLite.
const lookEvery = time.Millisecond

// installFile makes the table of the lab and its triggers. made and boot are the instant of the host's monotonic clock from
// which clients count the TTL of a lease, and which boot it is of; 0: there is no such clock.
var installFile = []string{
	`CREATE TABLE IF NOT EXISTS lab_audit (n INTEGER PRIMARY KEY AUTOINCREMENT, key BLOB NOT NULL, boot INTEGER NOT NULL, made INTEGER NOT NULL, value BLOB)`,
	`CREATE TRIGGER IF NOT EXISTS lab_audit_insert AFTER INSERT ON holdfast1_document BEGIN
		INSERT INTO lab_audit (key, boot, made, value) VALUES (NEW.key, NEW.boot, NEW.made, NEW.value); END`,
	`CREATE TRIGGER IF NOT EXISTS lab_audit_update AFTER UPDATE OF value ON holdfast1_document BEGIN
		INSERT INTO lab_audit (key, boot, made, value) VALUES (NEW.key, NEW.boot, NEW.made, NEW.value); END`,
	`CREATE TRIGGER IF NOT EXISTS lab_audit_delete AFTER DELETE ON holdfast1_document BEGIN
		INSERT INTO lab_audit (key, boot, made, value) VALUES (OLD.key, OLD.boot, OLD.made, NULL); END`,
	`DELETE FROM lab_audit`,
}

// fileAudit is a Ledger of a SQLite file. A trigger copies each version of a document. It reads no clock, since it runs in
// the processes of the clients, whose wall clocks the lab sets; so the lab looks for new versions again and again, and
// each was committed between two looks.
type fileAudit struct {
	ledger *Ledger
	booted time.Duration // the start of the history on the host's monotonic clock
	db     *sql.DB
	conn   *sql.Conn
	cancel context.CancelFunc
	done   chan struct{}

	changes int64         // the state of the file at the last look
	row     int64         // the last one that was read
	looked  time.Duration // when that look began
}

// RecordSQLite records the documents of a SQLite file. booted is the start of the history on the host's monotonic clock.
func (l *Ledger) RecordSQLite(ctx context.Context, path string, booted time.Duration) (Recording, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	a := &fileAudit{ledger: l, booted: booted, db: db, changes: -1, done: make(chan struct{})}
	if err := a.begin(ctx); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("ledger: audit: %w", err)
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	a.cancel = cancel
	go a.run(run)
	return a, nil
}

func (a *fileAudit) begin(ctx context.Context) (err error) {
	if a.conn, err = a.db.Conn(ctx); err != nil {
		return err
	}
	for _, statement := range installFile {
		if _, err := a.conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return a.look(ctx)
}

func (a *fileAudit) run(ctx context.Context) {
	defer close(a.done)
	each(ctx, lookEvery, func() { _ = a.look(ctx) }) // again the next time
}

// Close implements Recording.
func (a *fileAudit) Close(ctx context.Context) error {
	a.cancel()
	<-a.done
	defer a.db.Close()
	if err := a.look(ctx); err != nil {
		return fmt.Errorf("ledger: audit: %w", err)
	}
	return nil
}

// look reads the versions that were committed since the last look. If it fails they are read at the next one.
func (a *fileAudit) look(ctx context.Context) error {
	began := a.ledger.now()
	var changes int64
	if err := a.conn.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&changes); err != nil {
		return err
	}
	if changes == a.changes {
		a.looked = began
		return nil
	}
	rows, err := a.conn.QueryContext(ctx, `SELECT n, key, boot, made, value FROM lab_audit WHERE n > ? ORDER BY n`, a.row)
	if err != nil {
		return err
	}
	defer rows.Close()
	type row struct {
		n, boot, made int64
		key, value    []byte
	}
	var all []row
	for rows.Next() {
		var r row
		if err := rows.Scan(&r.n, &r.key, &r.boot, &r.made, &r.value); err != nil {
			return err
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	made := span{a.looked, a.ledger.now()}
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	for _, r := range all {
		a.row = r.n
		name, ok := a.ledger.documentName(r.key)
		if !ok {
			continue
		}
		v := version{resource: name, made: made, counted: made, value: r.value}
		if r.boot != 0 {
			v.counted = instant(time.Duration(r.made)*time.Microsecond - a.booted)
		}
		a.ledger.apply(v)
	}
	// Between the two statements there may have been more: the next look finds them.
	a.changes, a.looked = changes, began
	return nil
}
