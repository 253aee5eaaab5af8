package redistest

import (
	"fmt"
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
	path, err := Tool("internal/redistest/miniredis")
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return Start(t, append(slices.Clone(opts), func(c *config) { c.path = path })...)
}

// Tool returns the path of the program of a folder that is a module of its own. It is built if need be.
func Tool(folder string) (string, error) {
	root, err := goOutput("", "list", "-m", "-f", "{{.Dir}}", "github.com/holdfast-go/holdfast")
	if err != nil {
		return "", err
	}
	return goOutput(filepath.Join(root, folder), "tool", "-n", filepath.Base(folder)) // -n also builds it
}

// goOutput returns the output of a go command. If module is not empty, the command runs in that
// folder and without the workspace.
func goOutput(module string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	if cmd.Dir = module; module != "" {
		cmd.Env = append(os.Environ(), "GOWORK=off")
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, complaint.String())
	}
	return strings.TrimSpace(string(out)), nil
}
