package storetest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Store is a store for worker processes and for clients of the test.
type Store struct {
	// Open opens an engine of its own on the store at Target, and returns what closes its connection.
	Open   func(target string) (e engine.Engine, closeConnection func(), err error)
	Target string

	ttl time.Duration // of the leases of workers
	log string        // where workers write their tokens
}

// New returns a store. It belongs to one test: its workers share a resource that no others use.
func New(t testing.TB, open func(string) (engine.Engine, func(), error), target string) *Store {
	t.Helper()
	dir, err := os.MkdirTemp("", "storetest-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &Store{Open: open, Target: target, ttl: TTL, log: filepath.Join(dir, "tokens")}
}

// At returns the same store with its data elsewhere.
func (s *Store) At(target string) *Store {
	other := *s
	other.Target = target
	return &other
}

// TTL is that of the leases of workers, on the resource Name.
const (
	TTL  = time.Second
	Name = "work"
)

// Mode is what a worker does until it is stopped.
type Mode string

// A worker takes turns, in each of which it writes its token, or takes the lock and holds it, or tries once, as a job from cron does.
const (
	Turns Mode = "turns"
	Hold  Mode = "hold"
	Try   Mode = "try"
)

const (
	targetEnv = "STORETEST_TARGET"
	modeEnv   = "STORETEST_MODE"
	prefixEnv = "STORETEST_PREFIX"
	logEnv    = "STORETEST_LOG"
	ttlEnv    = "STORETEST_TTL"
)

// Main returns if this process is not a worker. TestMain calls it first.
func Main(open func(string) (engine.Engine, func(), error)) {
	target := os.Getenv(targetEnv)
	if target == "" {
		return
	}
	ttl, err := time.ParseDuration(os.Getenv(ttlEnv))
	if err == nil {
		s := &Store{Open: open, Target: target, ttl: ttl, log: os.Getenv(logEnv)}
		err = s.work(Mode(os.Getenv(modeEnv)), os.Getenv(prefixEnv))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// work does what a worker does, until its standard input ends. To each line it prints whether it holds.
func (s *Store) work(mode Mode, prefix string) error {
	e, closeConnection, err := s.Open(s.Target)
	if err != nil {
		return err
	}
	defer closeConnection()
	client, err := holdfast.New(e, holdfast.WithPrefix(prefix))
	if err != nil {
		return err
	}
	defer client.Close()
	log, err := os.OpenFile(s.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	ctx, cancel := context.WithCancel(context.Background())
	questions := make(chan bool)
	go func() {
		defer cancel()
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			questions <- true
		}
	}()
	m := client.Mutex(Name, holdfast.WithTTL(s.ttl))
	if mode == Try {
		return json.NewEncoder(os.Stdout).Encode(tryOnce(m))
	}
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
		if mode == Hold {
			fmt.Println("held", lease.Token())
			answer(ctx, questions, lease)
		}
		if err := lease.Release(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "worker: release:", err) // it was too slow, or the store away
		}
	}
}

// answer prints, whenever it is asked, whether the lease is valid.
func answer(ctx context.Context, questions <-chan bool, lease *holdfast.Lease) {
	for {
		select {
		case <-questions:
			if err := lease.Err(); err != nil {
				fmt.Println("lost:", err)
			} else {
				fmt.Println("held", lease.Token())
			}
		case <-ctx.Done():
			return
		}
	}
}

// Worker is a process.
type Worker struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	once sync.Once
}

// Start starts a worker, which ends with the test at the latest.
func (s *Store) Start(t testing.TB, mode Mode) *Worker {
	t.Helper()
	cmd, in, out, err := redistest.StartSelf(os.Stderr, targetEnv+"="+s.Target, modeEnv+"="+string(mode), prefixEnv+"="+t.Name(), logEnv+"="+s.log, ttlEnv+"="+s.ttl.String())
	if err != nil {
		t.Fatal(err)
	}
	w := &Worker{cmd: cmd, in: in, out: bufio.NewReader(out)}
	t.Cleanup(w.Stop)
	return w
}

// StartHolder starts a worker that holds, and returns it with its token when it does.
func (s *Store) StartHolder(t testing.TB) (w *Worker, token uint64) {
	t.Helper()
	w = s.Start(t, Hold)
	line := w.line(t)
	if _, err := fmt.Sscanf(line, "held %d", &token); err != nil {
		t.Fatalf("the worker printed %q", line)
	}
	return w, token
}

// line returns the next line that the worker prints.
func (w *Worker) line(t testing.TB) string {
	t.Helper()
	s, err := w.out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(s)
}

// Ask returns what the worker says of its lease: "held TOKEN" or "lost: CAUSE".
func (w *Worker) Ask(t testing.TB) string {
	t.Helper()
	if _, err := io.WriteString(w.in, "?\n"); err != nil {
		t.Fatal(err)
	}
	return w.line(t)
}

// Pause stops the process until Resume.
func (w *Worker) Pause(t testing.TB) {
	t.Helper()
	if err := redistest.Pause(w.cmd.Process); err != nil {
		t.Fatal(err)
	}
}

// Resume continues a paused process.
func (w *Worker) Resume() { _ = redistest.Resume(w.cmd.Process) } // it may have ended

// Stop ends the worker in order.
func (w *Worker) Stop() {
	w.once.Do(func() {
		w.Resume()
		_ = w.in.Close()
		_, _ = io.Copy(io.Discard, w.out)
		_ = w.cmd.Wait()
	})
}

// Kill ends it by SIGKILL.
func (w *Worker) Kill() {
	_ = w.cmd.Process.Kill()
	w.Stop()
}

// Client returns a client of the resources of the workers, with an engine and a connection of its own.
func (s *Store) Client(t testing.TB) *holdfast.Client {
	t.Helper()
	e, closeConnection, err := s.Open(s.Target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(closeConnection)
	c, err := holdfast.New(e, holdfast.WithPrefix(t.Name()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the store may be away
	return c
}

// Tokens returns what workers have written, in order.
func (s *Store) Tokens(t testing.TB) []uint64 {
	t.Helper()
	data, err := os.ReadFile(s.log)
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

// AwaitTurns waits until workers have written some more tokens than n.
func (s *Store) AwaitTurns(t testing.TB, n int) {
	t.Helper()
	redistest.Await(t, 30*time.Second, "more turns", func() bool { return len(s.Tokens(t)) > n })
}

// RequireRising checks that each turn began after the one before it.
func (s *Store) RequireRising(t testing.TB) {
	t.Helper()
	all := s.Tokens(t)
	for i := 1; i < len(all); i++ {
		if all[i] <= all[i-1] {
			redistest.Broken(t, "turn %d had token %d after %d", i, all[i], all[i-1])
		}
	}
}
