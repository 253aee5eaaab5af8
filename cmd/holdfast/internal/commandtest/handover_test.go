package commandtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/sqlservers"
)

// TestHandover starts holdfast as it is released, beside holdfast-stores, with that in PATH, and
// without.
func TestHandover(t *testing.T) {
	t.Parallel()
	server := sqlservers.StartPostgreSQL(t)
	beside, alone := t.TempDir(), t.TempDir()
	buildReleased(t, beside, "../..", "../../holdfast-stores")
	link := filepath.Join(alone, "holdfast")
	if err := os.Link(filepath.Join(beside, "holdfast"), link); err != nil {
		t.Fatal(err)
	}
	url := server.DSN("")
	run := func(dir, path string, code int, want string, env []string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "holdfast"), args...)
		cmd.Env = append(os.Environ(), append(env, "PATH="+path+":/usr/bin:/bin", "HOLDFAST_STORE="+url)...)
		out, err := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != code || !strings.Contains(string(out), want) {
			t.Errorf("holdfast %q: exit code %d, %v, output %q; want %d and %q", args, got, err, out, code, want)
		}
	}
	for _, dir := range []string{beside, alone} {
		run(dir, beside, 0, "the tables are there", nil, "migrate")
		run(dir, beside, 3, "hello", nil, "run", "r", "--", "sh", "-c", "echo hello; exit 3")
		run(dir, beside, 78, "holdfast: the store (PostgreSQL at ", nil, "--store", server.DSN("nowhere"), "show", "r")
		run(dir, beside, 0, "", nil, "run", "r", "--", "sh", "-c", `test -z "$HOLDFAST_HANDOVER"`)
	}
	for _, line := range []string{
		`echo "$URL" | HOLDFAST_STORE_FILE=/dev/stdin holdfast run r -- sh -c 'echo file; test -z "$HOLDFAST_STORE_FD"'`,
		`holdfast --store-file <(echo "$URL") run r -- echo file`,
	} {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", line)
		cmd.Env = append(os.Environ(), "PATH="+beside+":/usr/bin:/bin", "URL="+url)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "file\n" {
			t.Errorf("%s: %v, output %q", line, err, out)
		}
	}
	missing := "for PostgreSQL the program holdfast-stores is needed, which is neither beside this program nor in PATH; " +
		"install it: go install github.com/holdfast-go/holdfast/cmd/holdfast/holdfast-stores@latest"
	run(alone, alone, 78, missing, nil, "ls")
	run(alone, alone, 78, missing, nil, "doctor", url)
	run(alone, alone, 78, `"event":"error"`, nil, "ls", "--json")
	run(alone, alone, 0, "", nil, "names", "a")
	run(alone, alone, 0, "holdfast ", nil, "version")
	run(alone, alone, 0, "complete", nil, "completion", "bash")
	// A program of another version, and one that is called like it and lacks the drivers.
	run(beside, beside, 78, "install the same version of both", []string{"HOLDFAST_HANDOVER=v0.0.1"}, "ls")
	if err := os.Link(link, filepath.Join(alone, "holdfast-stores")); err != nil {
		t.Fatal(err)
	}
	run(alone, alone, 78, missing, nil, "ls")
}

// buildReleased builds programs into a folder, without symbols as a release.
func buildReleased(t *testing.T, dir string, packages ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"build", "-buildvcs=false", "-ldflags=-s -w", "-o", dir + "/"}, packages...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
