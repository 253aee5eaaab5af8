package sqlite_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/storetest"
)

// requireIntact checks the database as SQLite does.
func requireIntact(t *testing.T, path string) {
	t.Helper()
	var verdict string
	if err := open(t, path, "").QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("%s: %s, %v", path, verdict, err)
	}
}

// Processes are killed while they write: the others go on, the tokens rise, and the file stays intact.
func TestProcessesKilledInMidWrite(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	storetest.KilledInMidWrite(t, storetest.New(t, openEngine, path))
	requireIntact(t, path)
}

// A holder is killed: a waiter gets the lease when the TTL is over, and a process that comes
// later does not have to wait at all.
func TestHolderKilled(t *testing.T) {
	t.Parallel()
	s := storetest.New(t, openEngine, newFile(t))
	storetest.HolderKilled(t, s)

	w, _ := s.StartHolder(t)
	w.Kill()
	<-time.After(storetest.TTL + 50*time.Millisecond)
	lease, err := s.Client(t).Mutex(storetest.Name).TryLock(t.Context())
	if err != nil {
		t.Fatalf("a process that has never seen the dead holder: %v", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	s.RequireRising(t)
}

// The files are copied while all processes are stopped somewhere in their writes, as a crash
// would leave them. The copy is intact, has every token that was given, and is of use.
func TestCopyOfFilesInUse(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	s := storetest.New(t, openEngine, path)
	workers := []*storetest.Worker{s.Start(t, storetest.Turns), s.Start(t, storetest.Turns)}
	for range redistest.Scale(4, 60) {
		s.AwaitTurns(t, len(s.Tokens(t))+rand.N(20))
		for _, w := range workers {
			w.Pause(t)
		}
		given := s.Tokens(t)
		replica := filepath.Join(folder(t), "locks.db")
		for _, suffix := range []string{"", "-wal"} {
			data, err := os.ReadFile(path + suffix)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if err := os.WriteFile(replica+suffix, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, w := range workers {
			w.Resume()
		}
		requireIntact(t, replica)
		lease, err := s.At(replica).Client(t).Mutex(storetest.Name, holdfast.WithTTL(storetest.TTL)).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if last := given[len(given)-1]; lease.Token() <= last {
			redistest.Broken(t, "the copy gave token %d after %d", lease.Token(), last)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, w := range workers {
		w.Stop()
	}
	s.RequireRising(t)
}

// A process that is stopped for longer than its TTL loses the lease. One that is stopped in a
// transaction stops all others, so this is tried again then.
func TestHolderStopped(t *testing.T) {
	t.Parallel()
	s := storetest.New(t, openEngine, newFile(t))
	for range 5 {
		w, token := s.StartHolder(t)
		w.Pause(t)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		lease, err := s.Client(t).Mutex(storetest.Name).Lock(ctx)
		cancel()
		if err != nil {
			w.Stop()
			t.Logf("the holder was stopped in a transaction: %v", err)
			continue
		}
		storetest.RequireLost(t, w, token, lease)
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		return
	}
	t.Error("nobody was granted the lease of a holder that was stopped")
}

// The file cannot grow for a time.
func TestFullFile(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	filler := open(t, path, "")
	run := func(query string) error {
		_, err := filler.Exec(query)
		return err
	}
	limited := func(path string) (engine.Engine, func(), error) {
		return openEngine(path + "?_pragma=max_page_count(200)")
	}
	fill := func() {
		for _, query := range []string{"PRAGMA max_page_count = 200", "CREATE TABLE filler (b BLOB)"} {
			if err := run(query); err != nil {
				t.Fatal(err)
			}
		}
		var err error
		for err == nil {
			err = run("INSERT INTO filler VALUES (randomblob(3000))")
		}
		if !strings.Contains(err.Error(), "full") {
			t.Fatal(err)
		}
	}
	filler.SetMaxOpenConns(1) // for which the limit is set
	storetest.Full(t, storetest.New(t, limited, path), fill, func() {
		if err := run("DELETE FROM filler"); err != nil {
			t.Error(err)
		}
	}, "make room")
	requireIntact(t, path)
}

func TestFaults(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	storetest.Faults(t, func(t testing.TB) *storetest.Store { return storetest.New(t, openEngine, path) })
}
