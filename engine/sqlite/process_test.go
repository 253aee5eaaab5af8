package sqlite_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/sqlite"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func newClient(t testing.TB, path string) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(sqlite.New(open(t, path, "")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// requireRising checks that the tokens that workers have logged rise: each turn began after
// the one before it.
func requireRising(t *testing.T, path string) {
	t.Helper()
	all := tokens(t, path)
	for i := 1; i < len(all); i++ {
		if all[i] <= all[i-1] {
			t.Errorf("turn %d had token %d after %d", i, all[i], all[i-1])
		}
	}
}

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
	workers := make([]*worker, 3)
	for i := range workers {
		workers[i] = startWorker(t, path, modeTurns)
	}
	for range redistest.Scale(12, 200) {
		n := len(tokens(t, path))
		awaitTurns(t, path, n+rand.N(20))
		i := rand.N(len(workers))
		workers[i].kill()
		workers[i] = startWorker(t, path, modeTurns)
	}
	for _, w := range workers {
		w.stop()
	}
	requireRising(t, path)
	requireIntact(t, path)
}

// A holder is killed: a waiter gets the lease when the TTL is over, and a process that comes
// later does not have to wait at all.
func TestHolderKilled(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	hold := func() {
		w := startWorker(t, path, modeHold)
		if line := w.line(t); !strings.HasPrefix(line, "held") {
			t.Fatalf("the worker printed %q", line)
		}
		w.kill()
	}
	hold()
	killed := time.Now()
	lease, err := newClient(t, path).Mutex(workersName).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(killed); waited > workersTTL+3*time.Second {
		t.Errorf("granted %v after the holder was killed", waited)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}

	hold()
	<-time.After(workersTTL + 50*time.Millisecond)
	if lease, err = newClient(t, path).Mutex(workersName).TryLock(t.Context()); err != nil {
		t.Fatalf("a process that has never seen the dead holder: %v", err)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	requireRising(t, path)
}

// The files are copied while all processes are stopped somewhere in their writes, as a crash
// would leave them. The copy is intact, has every token that was given, and is of use.
func TestCopyOfFilesInUse(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	workers := []*worker{startWorker(t, path, modeTurns), startWorker(t, path, modeTurns)}
	for range redistest.Scale(6, 60) {
		awaitTurns(t, path, len(tokens(t, path))+rand.N(20))
		for _, w := range workers {
			if err := redistest.Pause(w.cmd.Process); err != nil {
				t.Fatal(err)
			}
		}
		given := tokens(t, path)
		dir := folder(t)
		for _, suffix := range []string{"", "-wal"} {
			data, err := os.ReadFile(path + suffix)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "locks.db"+suffix), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, w := range workers {
			if err := w.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		}
		replica := filepath.Join(dir, "locks.db")
		requireIntact(t, replica)
		c := newClient(t, replica)
		lease, err := c.Mutex(workersName, holdfast.WithTTL(workersTTL)).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if last := given[len(given)-1]; lease.Token() <= last {
			t.Errorf("the copy gave token %d after %d", lease.Token(), last)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	for _, w := range workers {
		w.stop()
	}
	requireRising(t, path)
}

// A process that is stopped for longer than its TTL loses the lease. One that is stopped in a
// transaction stops all others, so this is tried again then.
func TestHolderStopped(t *testing.T) {
	t.Parallel()
	path := newFile(t)
	c := newClient(t, path)
	for range 5 {
		w := startWorker(t, path, modeHold)
		w.line(t)
		if err := redistest.Pause(w.cmd.Process); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		lease, err := c.Mutex(workersName).Lock(ctx)
		cancel()
		w.stop()
		if err != nil {
			t.Logf("the holder was stopped in a transaction: %v", err)
			continue
		}
		if given := tokens(t, path); lease.Token() <= given[len(given)-1] {
			t.Errorf("token %d after %d", lease.Token(), given[len(given)-1])
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
		return
	}
	t.Error("nobody was granted the lease of a holder that was stopped")
}
