package contrib

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// buildCommand returns the path of the command.
func buildCommand(t *testing.T) string {
	t.Helper()
	holdfast := filepath.Join(t.TempDir(), "holdfast")
	build := exec.Command("go", "build", "-o", holdfast, ".")
	build.Dir = "../cmd/holdfast"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return holdfast
}

// startDashboards runs holdfast serve for the Redis of the healthy service and for one that is killed, and returns their
// addresses.
func startDashboards(t *testing.T, f fleet, command string) map[string]string {
	t.Helper()
	addresses := map[string]string{}
	for job, name := range map[string]string{"read": "healthy", "unread": "down"} {
		line, _ := start(t, "http://", command, "serve", "--store", f[name].redis.URL(), "--listen", "127.0.0.1:0")
		addresses[job] = strings.TrimSuffix(strings.TrimPrefix(strings.Fields(line)[0], "http://"), "/")
	}
	return addresses
}

// start starts a program that runs until the test ends, and returns the first line of its output with a text.
func start(t *testing.T, text, name string, args ...string) (string, *os.Process) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // the signal ended it
	})
	late := time.AfterFunc(time.Minute, cancel)
	defer late.Stop()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), text) {
			return lines.Text(), cmd.Process
		}
	}
	t.Fatalf("%s has ended, and not written %q", name, text)
	return "", nil
}
