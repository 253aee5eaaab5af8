package arch

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// listed is what the go command tells about a package.
type listed struct {
	ImportPath string
	Standard   bool
	Imports    []string
}

// drivers are the folders whose importers link go-redis.
func drivers() []string { return []string{"engine/goredis", "fence"} }

// TestBuiltGraph asks the go command what a user links: without a driver only
// the standard library and, with the root package, what reads cron expressions;
// with a driver also go-redis and what that itself needs.
// Unlike the rules over source it follows every import to its end.
func TestBuiltGraph(t *testing.T) {
	for _, dir := range []string{"", "engine", "engine/memory", "engine/quorum", "engine/goredis", "fence", "internal/queue"} {
		if !hasGo(t, filepath.Join("../..", dir)) {
			continue
		}
		t.Run("holdfast/"+dir, func(t *testing.T) {
			for _, text := range strangers(goList(t, dir), slices.Contains(drivers(), dir)) {
				t.Errorf("%s\n\twhy not: what a lock links, every service that locks links", text)
			}
		})
	}
}

// strangers lists the imports that a graph should not have.
func strangers(graph []listed, driver bool) []string {
	var out []string
	for _, p := range graph {
		if _, own := home(p.ImportPath); !own {
			if !p.Standard && !driver && p.ImportPath != cronReader {
				out = append(out, p.ImportPath+" is linked")
			}
			continue
		}
		for _, imp := range p.Imports {
			if imp == cronReader && p.ImportPath == module {
				continue
			}
			if _, own := home(imp); !own && !standard(imp) && !within(imp, "github.com/redis/go-redis") {
				out = append(out, p.ImportPath+" imports "+imp)
			}
		}
	}
	return out
}

func TestBuiltGraphCanFail(t *testing.T) {
	graph := []listed{
		{ImportPath: module, Imports: []string{"context", module + "/engine", "github.com/redis/go-redis/v9"}},
		{ImportPath: module + "/engine", Imports: []string{"example.org/x"}},
		{ImportPath: "context", Standard: true},
		{ImportPath: "github.com/redis/go-redis/v9", Imports: []string{"example.org/y"}},
	}
	if got, want := strangers(graph, true), []string{module + "/engine imports example.org/x"}; !slices.Equal(got, want) {
		t.Errorf("with a driver: %q, want %q", got, want)
	}
	if got := strangers(graph, false); len(got) != 2 {
		t.Errorf("without a driver: %q, want the linked driver too", got)
	}
}

func hasGo(t *testing.T, dir string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(f string) bool { return !strings.HasSuffix(f, "_test.go") })
}

func goList(t *testing.T, dir string) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-buildvcs=false", "-json=ImportPath,Standard,Imports", "./"+dir)
	cmd.Dir = "../.."
	var complaint strings.Builder
	cmd.Stderr = &complaint
	cmd.Env = append(os.Environ(), "GOWORK=off") // what a user's build sees
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, complaint.String())
	}
	var graph []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return graph
		} else if err != nil {
			t.Fatal(err)
		}
		graph = append(graph, p)
	}
}
