package stores

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
	"github.com/holdfast-go/holdfast/engine"
	sqliteengine "github.com/holdfast-go/holdfast/engine/sqlite"
)

// sqliteNode is a SQLite database.
type sqliteNode struct {
	db   *sql.DB
	path string
}

// openSQLite opens sqlite:///path. The file is not made: only migrate does, so that a wrong path
// is an error.
func openSQLite(text string, t store.TLS) (store.Node, error) {
	if t != (store.TLS{}) {
		return nil, t.Apply(nil, "SQLite has no connections: omit the flags of TLS")
	}
	u, err := url.Parse(text)
	if err != nil || u.Host != "" || u.User != nil || u.RawQuery != "" || strings.HasSuffix(u.Path, "/") || u.Path == "" {
		return nil, store.Errorf("the store's URL is no path of a file: write sqlite:///path, with three slashes and nothing after the path")
	}
	db, err := sql.Open("sqlite", dataSource(u.Path, "rw"))
	if err != nil {
		return nil, store.Errorf("open %s: %v", u.Path, err)
	}
	return &sqliteNode{db: db, path: filepath.Clean(u.Path)}, nil
}

// dataSource returns the driver's name of a file; mode is rw, or rwc to make the file too.
func dataSource(path, mode string) string {
	return (&url.URL{Scheme: "file", Path: path, RawQuery: "mode=" + mode}).String()
}

// Engine implements store.Node.
func (n *sqliteNode) Engine() engine.Engine { return sqliteengine.New(n.db) }

// RoundTrip implements store.Node: it reads.
func (n *sqliteNode) RoundTrip(ctx context.Context, _ string) error {
	var tables int
	return n.db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables)
}

// Schema implements store.Migrator.
func (n *sqliteNode) Schema() string { return sqliteengine.Schema() }

// Migrate implements store.Migrator. It makes the file.
func (n *sqliteNode) Migrate(ctx context.Context) error {
	db, err := sql.Open("sqlite", dataSource(n.path, "rwc"))
	if err != nil {
		return err
	}
	defer db.Close()
	if err := sqliteengine.Migrate(ctx, db); err != nil {
		return fmt.Errorf("%w: %s: %w", holdfast.ErrDenied, notMade, err)
	}
	return nil
}

// notMade is in the errors of Migrate.
const notMade = "the tables were not made"

// Advise implements store.Node.
func (n *sqliteNode) Advise(text string) store.Advice {
	folder := filepath.Dir(n.path)
	if _, err := os.Stat(folder); os.IsNotExist(err) {
		return store.Advice{Found: "there is no folder " + folder, Remedy: "make it and run holdfast migrate, or correct the path in --store or HOLDFAST_STORE"}
	}
	if _, err := os.Stat(n.path); os.IsNotExist(err) {
		if strings.Contains(text, notMade) {
			return store.Advice{Refused: true, Found: "the file is missing, and this user cannot make it", Remedy: "allow this user to write the folder " + folder + ", or correct the path in --store or HOLDFAST_STORE"}
		}
		return store.Advice{Found: "the file is missing", Remedy: "run holdfast migrate, which makes it, or correct the path in --store or HOLDFAST_STORE"}
	}
	switch {
	case strings.Contains(text, "no such table: holdfast1_"):
		return store.Advice{Found: "the tables are missing", Remedy: migrate}
	case strings.Contains(text, "readonly database"), strings.Contains(text, "permission denied"), strings.Contains(text, "unable to open database file"):
		return store.Advice{Refused: true, Remedy: "allow this user to write the file, those beside it with the endings -wal and -shm, and their folder"}
	case strings.Contains(text, "not a database"), strings.Contains(text, "malformed"):
		return store.Advice{Remedy: "give another file, or delete this one if it has locks alone and no process uses it"}
	}
	return store.Advice{}
}

// Servers implements store.Node.
func (n *sqliteNode) Servers() []string { return []string{"SQLite " + n.path} }

// Close implements store.Node.
func (n *sqliteNode) Close() error { return n.db.Close() }

func (n *sqliteNode) String() string { return "SQLite in " + n.path }

// Short implements store.Node.
func (n *sqliteNode) Short() string { return n.path }
