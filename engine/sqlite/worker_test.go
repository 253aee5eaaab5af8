package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/sqlite"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// workerEnv in the environment makes the test binary a worker on a database, and modeEnv what it does.
const (
	workerEnv = "SQLITE_WORKER"
	modeEnv   = "SQLITE_MODE"
)

// What a worker does until its standard input ends.
const (
	modeTurns = "turns" // takes turns: it adds its token to the log under the lock
	modeHold  = "hold"  // takes the lock and holds it
)

const (
	workersName = "work"
	workersTTL  = 500 * time.Millisecond
)

// logOf returns the file beside a database in which workers write their tokens.
func logOf(path string) string { return filepath.Join(filepath.Dir(path), "tokens") }

func work(path string) int {
	if err := turns(path, os.Getenv(modeEnv)); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	}
	return 0
}

func turns(path, mode string) error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		return err
	}
	defer db.Close()
	client, err := holdfast.New(sqlite.New(db))
	if err != nil {
		return err
	}
	defer client.Close()
	log, err := os.OpenFile(logOf(path), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	m := client.Mutex(workersName, holdfast.WithTTL(workersTTL))
	for {
		lease, err := m.Lock(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if lease.Err() == nil {
			fmt.Fprintln(log, lease.Token())
		}
		if mode == modeHold {
			fmt.Println("held", lease.Token())
			<-ctx.Done()
		}
		if err := lease.Release(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "worker: release:", err) // it was too slow
		}
	}
}

// worker is a process.
type worker struct {
	cmd  *exec.Cmd
	in   io.Closer
	out  *bufio.Reader
	once sync.Once
}

// startWorker starts a worker, which ends with the test at the latest.
func startWorker(t testing.TB, path, mode string) *worker {
	t.Helper()
	cmd, in, out, err := redistest.StartSelf(os.Stderr, workerEnv+"="+path, modeEnv+"="+mode)
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{cmd: cmd, in: in, out: bufio.NewReader(out)}
	t.Cleanup(w.stop)
	return w
}

// line returns the next line that the worker prints.
func (w *worker) line(t testing.TB) string {
	t.Helper()
	s, err := w.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// stop ends the worker in order.
func (w *worker) stop() {
	w.once.Do(func() {
		_ = w.cmd.Process.Signal(syscall.SIGCONT)
		_ = w.in.Close()
		_, _ = io.Copy(io.Discard, w.out)
		_ = w.cmd.Wait()
	})
}

// kill ends it by SIGKILL.
func (w *worker) kill() {
	_ = w.cmd.Process.Kill()
	w.stop()
}

// tokens returns what workers have logged.
func tokens(t testing.TB, path string) []uint64 {
	t.Helper()
	data, err := os.ReadFile(logOf(path))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var all []uint64
	for line := range strings.Lines(string(data)) {
		n, err := strconv.ParseUint(strings.TrimSpace(line), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// awaitTurns waits until workers have logged some more tokens than n.
func awaitTurns(t testing.TB, path string, n int) {
	t.Helper()
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for deadline := time.Now().Add(20 * time.Second); len(tokens(t, path)) <= n; <-look.C {
		if time.Now().After(deadline) {
			t.Fatalf("no more than %d turns", n)
		}
	}
}
