package doctorstores

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// journal checks the journal mode. PRAGMA synchronous is the engine's own for its transactions.
func (q *sqlite) journal(ctx context.Context) {
	c := q.check("durability")
	var mode string
	if err := q.row(ctx, "PRAGMA journal_mode", &mode); c.Unanswered(err) {
		return
	}
	c = c.With("journal_mode", mode)
	switch mode {
	case "wal":
		c.OK("journal_mode wal; the engine sets synchronous itself: NORMAL for leases, which a power loss ends with the host, and FULL for marks")
	case "off", "memory":
		c.Fail("run holdfast migrate, which sets it to wal, and remove the pragma from where the database is opened",
			"journal_mode %s: a process that is killed destroys the database", mode)
	default:
		c.Warn("run holdfast migrate, which sets it to wal", "journal_mode %s: readers and the writer wait for each other, and each commit for the disk", mode)
	}
}

const (
	// checkedSize is the size of a file up to which it is checked as a whole.
	checkedSize = 64 << 20
	// largeLog is the size of the write-ahead log above which there is a warning.
	largeLog = 64 << 20
)

// integrity checks that the file is intact, unless it is large.
func (q *sqlite) integrity(ctx context.Context) {
	c := q.check("integrity")
	info, err := os.Stat(q.path)
	if err != nil || info.Size() > checkedSize {
		return
	}
	var verdict string
	if err := q.row(ctx, "PRAGMA quick_check(1)", &verdict); err != nil {
		verdict = diagnosis.OneLine(err)
	}
	if verdict != "ok" {
		c.Fail("end all processes that use it, and delete it if it has locks alone, or restore it", "the file is damaged: %s", verdict)
		return
	}
	c.OK("the file is intact")
}

// log checks the size of the write-ahead log.
func (q *sqlite) log() {
	info, err := os.Stat(q.path + "-wal")
	if err != nil || info.Size() < largeLog {
		return
	}
	q.check("bloat").With("wal_bytes", info.Size()).Warn("find the process that keeps a transaction open (fuser "+q.path+")",
		"the write-ahead log has %s: a reader that does not end keeps it from being written back", diagnosis.Size(info.Size()))
}

// sharing checks that nothing else is in the file: other transactions delay all locks.
func (q *sqlite) sharing(ctx context.Context) {
	c := q.check("sharing")
	var others int
	var names string
	err := q.row(ctx, "SELECT count(*), coalesce(group_concat(name, ', '), '') FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'holdfast1\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'", &others, &names)
	switch {
	case err != nil:
		c.Unanswered(err)
	case others > 0:
		c.With("tables", others).Warn("give the locks a file of their own", "the file has other tables too (%s): a transaction on them makes every lock wait", names)
	default:
		c.OK("the file has locks alone")
	}
}

// filesystem checks that SQLite's locks work on the file system.
func (q *sqlite) filesystem() {
	name, kind := filesystemOf(filepath.Dir(q.path))
	c := q.check("filesystem").With("filesystem", name)
	switch kind {
	case networked:
		c.Fail("put the file on a local disk, or use a store with a server", "%s is a network file system, on which SQLite's locks are not reliable and WAL does not work: two may hold a resource", name)
	case volatile:
		c.Warn("put the file on a disk, if you use Once or Job", "%s is in memory: a restart of the machine forgets the marks of Once and Job", name)
	case layered:
		c.Warn("mount a folder of the host into the containers", "%s is a container's own: no other container sees the file, and it ends with the container", name)
	case unclear:
		c.Unknown("check that the file is on a local disk of this host, and not on a network file system", "the file system is %s", name)
	default:
		c.OK("%s, of this host", name)
	}
}

// A filesystemKind is how a file system suits SQLite.
type filesystemKind uint8

const (
	unclear   filesystemKind = iota // it is not known
	local                           // a disk of this host
	networked                       // other hosts write to it as well
	volatile                        // in memory
	layered                         // a container's own
)

// sqliteTables are those of engine/sqlite with their columns, and the version in their names.
var sqliteTables = []struct {
	name, columns, values string
}{
	{"holdfast1_document", "key, rev, boot, made, until, value", "x'', 1, 0, 0, 0, x''"},
	{"holdfast1_wake", "seq, at, address, body", "NULL, 0, x'', x''"},
	{"holdfast1_host", "id, boot", "1, 0"},
}

// schema checks that the tables are there and are those of this version. It reports whether they may be used.
func (q *sqlite) schema(ctx context.Context) bool {
	c := q.check("schema")
	for _, table := range sqliteTables {
		rows, err := q.conn.QueryContext(ctx, "SELECT "+table.columns+" FROM "+table.name+" LIMIT 0")
		switch {
		case err == nil:
			_ = rows.Close() // it has none
		case strings.Contains(err.Error(), "no such table"):
			c.Fail("run holdfast migrate, or apply the SQL that it prints", "the table %s is missing", table.name)
			return false
		case strings.Contains(err.Error(), "no such column"):
			c.Fail("rename it, and run holdfast migrate", "the table %s is not the one of Holdfast: %s", table.name, diagnosis.OneLine(err))
			return false
		default:
			c.Unanswered(err)
			return false
		}
	}
	var key int
	if err := q.row(ctx, "SELECT count(*) FROM pragma_index_list('holdfast1_document') AS i JOIN pragma_index_info(i.name) AS c WHERE i.\"unique\" AND c.name = 'key'", &key); err == nil && key == 0 {
		c.Fail("rename it, and run holdfast migrate", "the table holdfast1_document is not the one of Holdfast: its key is not unique")
		return false
	}
	c.OK("holdfast1_document, holdfast1_wake and holdfast1_host are there")
	return true
}

// rights writes to the tables in a transaction that is rolled back. It reports whether that is allowed.
func (q *sqlite) rights(ctx context.Context) bool {
	c := q.check("rights")
	err := q.writes(ctx)
	switch {
	case err == nil:
		c.OK("the file can be written")
		return true
	case busy(err):
		return true // see writers
	}
	c.FailAs(diagnosis.Denied, "allow this user to write the file, those beside it with the endings -wal and -shm, and their folder; and open it without mode=ro and query_only",
		"the file cannot be written: %s", diagnosis.OneLine(err))
	return false
}

func (q *sqlite) writes(ctx context.Context) error {
	if err := q.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	var failed error
	for _, table := range sqliteTables {
		if failed == nil {
			failed = q.exec(ctx, "INSERT OR REPLACE INTO "+table.name+" ("+table.columns+") VALUES ("+table.values+")")
		}
	}
	if err := q.exec(ctx, "ROLLBACK"); failed == nil {
		failed = err
	}
	return failed
}
