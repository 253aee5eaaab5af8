package redistest

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// StartMiniredis starts a process of miniredis, a Redis written in Go, in place of a redis-server.
// It loses its data at a restart.
func StartMiniredis(t testing.TB, opts ...Option) *Server {
	t.Helper()
	root := goOutput(t, "", "list", "-m", "-f", "{{.Dir}}", "github.com/holdfast-go/holdfast")
	path := goOutput(t, filepath.Join(root, "internal/redistest/miniredis"), "tool", "-n", "miniredis") // -n also builds it
	return Start(t, append(slices.Clone(opts), func(c *config) { c.path = path })...)
}

// goOutput returns the output of a go command. If module is not empty, the command runs in that
// folder and without the workspace.
func goOutput(t testing.TB, module string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	if cmd.Dir = module; module != "" {
		cmd.Env = append(os.Environ(), "GOWORK=off")
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("redistest: go %s: %v\n%s", strings.Join(args, " "), err, complaint.String())
	}
	return strings.TrimSpace(string(out))
}
