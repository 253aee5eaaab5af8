package redistest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// StartMiniredis starts a process of miniredis, a Redis written in Go that others use in
// their tests, in place of a redis-server. It keeps no data over a restart.
func StartMiniredis(t testing.TB, opts ...Option) *Server {
	t.Helper()
	_, here, _, _ := runtime.Caller(0)
	build := exec.Command("go", "tool", "-n", "miniredis") // builds it if need be, and prints its path
	build.Dir = filepath.Join(filepath.Dir(here), "miniredis")
	build.Env = append(os.Environ(), "GOWORK=off")
	var complaint strings.Builder
	build.Stderr = &complaint
	path, err := build.Output()
	if err != nil {
		t.Fatalf("redistest: build miniredis: %v\n%s", err, complaint.String())
	}
	return Start(t, append(slices.Clone(opts), func(c *config) { c.path = strings.TrimSpace(string(path)) })...)
}
