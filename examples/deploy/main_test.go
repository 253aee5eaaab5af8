package main

import (
	"database/sql"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/examples/internal/node"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { node.Main(m, main) }

// Four instances start. The one that migrates is killed after the first
// migration: another applies the rest, each once, and then all serve.
func TestMigrationsAreAppliedOnce(t *testing.T) {
	server := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "shop.db")
	killed := node.Start(t, "-redis", server.URL(), "-db", file, "-ttl", "1s", "-pause", "1h")
	killed.Await("applied: 1")
	var others []*node.Process
	for range 3 {
		others = append(others, node.Start(t, "-redis", server.URL(), "-db", file))
	}
	killed.Kill()
	applied := killed.Matching("applied: ")
	for _, n := range others {
		n.Await("serving")
		applied = append(applied, n.Matching("applied: ")...)
		n.Signal(syscall.SIGTERM)
		n.Wait()
	}
	if want := []string{"1", "2", "3"}; !slices.Equal(applied, want) {
		t.Errorf("applied %v, want %v", applied, want)
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var items, version int
	if err := db.QueryRow("SELECT count(*) FROM item WHERE stock = 10").Scan(&items); err != nil || items != 2 {
		t.Errorf("%d items, %v; want 2", items, err)
	}
	if err := db.QueryRow("PRAGMA user_version").Scan(&version); err != nil || version != len(migrations()) {
		t.Errorf("version %d, %v; want %d", version, err, len(migrations()))
	}
}
