// Package node runs an example as several processes, as the nodes of a service
// do: the test binary starts itself again, and TestMain calls the example's main.
package node

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// variable is set in the processes that Start starts.
const variable = "HOLDFAST_EXAMPLE_NODE"

// limit is how long Await and Wait wait.
const limit = 30 * time.Second

// Main is for TestMain: it runs the tests or, in a process that Start started,
// the main function of the example.
func Main(m *testing.M, main func()) {
	if os.Getenv(variable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Process is one node. Its methods may be called from any
// goroutine, those that can fail the test from the test's own.
type Process struct {
	t    testing.TB
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended; err is set then
	err  error

	mu      sync.Mutex
	lines   []string
	written chan struct{} // closed and replaced with each line
}

// Start starts a node with the arguments of the example. The node is killed at
// the end of the test if it still runs.
func Start(t testing.TB, args ...string) *Process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n := &Process{t: t, cmd: exec.Command(self, args...), done: make(chan struct{}), written: make(chan struct{})}
	n.cmd.Env = append(os.Environ(), variable+"=1", "GORACE=atexit_sleep_ms=0") // the race detector waits a second at the end
	output, write := io.Pipe()
	n.cmd.Stdout, n.cmd.Stderr = write, write
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		n.err = n.cmd.Wait()
		_ = write.Close()
	}()
	go n.read(output)
	t.Cleanup(func() {
		n.Kill()
		if t.Failed() {
			t.Logf("node %q wrote:\n%s", args, strings.Join(n.Lines(), "\n"))
		}
	})
	return n
}

func (n *Process) read(output io.Reader) {
	defer close(n.done)
	for scan := bufio.NewScanner(output); scan.Scan(); {
		n.mu.Lock()
		n.lines = append(n.lines, scan.Text())
		close(n.written)
		n.written = make(chan struct{})
		n.mu.Unlock()
	}
}

// Lines returns what the node has written so far, on both streams.
func (n *Process) Lines() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]string(nil), n.lines...)
}

// Matching returns those of the lines that begin with prefix, without it.
func (n *Process) Matching(prefix string) []string {
	var out []string
	for _, line := range n.Lines() {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			out = append(out, rest)
		}
	}
	return out
}

// Await waits until the node has written a line that begins with prefix, and
// returns the rest of the first one.
func (n *Process) Await(prefix string) string {
	n.t.Helper()
	timeout := time.After(limit)
	for {
		n.mu.Lock()
		written := n.written
		n.mu.Unlock()
		if found := n.Matching(prefix); len(found) > 0 {
			return found[0]
		}
		select {
		case <-written:
		case <-n.done:
			if len(n.Matching(prefix)) == 0 {
				n.t.Fatalf("the node ended (%v) without a line that begins with %q", n.err, prefix)
			}
		case <-timeout:
			n.t.Fatalf("no line that begins with %q in %v", prefix, limit)
		}
	}
}

// Signal sends a signal to the node.
func (n *Process) Signal(sig os.Signal) {
	n.t.Helper()
	if err := n.cmd.Process.Signal(sig); err != nil {
		n.t.Fatal(err)
	}
}

// Wait waits until the node has ended by itself or after a signal, and fails
// the test if its exit code is not 0.
func (n *Process) Wait() {
	n.t.Helper()
	if err := n.end(); err != nil {
		n.t.Fatalf("the node ended with %v", err)
	}
}

// end waits until the node has ended, and returns how.
func (n *Process) end() error {
	n.t.Helper()
	select {
	case <-n.done:
	case <-time.After(limit):
		n.t.Fatalf("the node did not end in %v", limit)
	}
	return n.err
}

// Stop sends TERM and waits as Wait does. The signal may also end a node that has just
// been started and does not handle it yet.
func (n *Process) Stop() {
	n.t.Helper()
	n.Signal(syscall.SIGTERM)
	if err := n.end(); err != nil && err.Error() != "signal: terminated" {
		n.t.Fatalf("the node ended with %v", err)
	}
}

// Kill ends the node at once, as a crash of its machine does.
func (n *Process) Kill() {
	_ = n.cmd.Process.Kill()
	<-n.done
}
