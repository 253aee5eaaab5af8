package arch

import (
	"bytes"
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

// listed is what the go command prints about a package.
type listed struct {
	ImportPath string
	Standard   bool
	Imports    []string
}

// drivers are the folders whose importers link go-redis.
func drivers() []string { return []string{"engine/goredis", "fence"} }

// TestBuiltGraph checks, by the go command, what a user links: without a driver only
// the standard library and, with the root package, what reads cron expressions;
// with a driver also go-redis and what that itself needs.
// Unlike the rules over source it follows every import to its end.
func TestBuiltGraph(t *testing.T) {
	for _, dir := range []string{"", "engine", "engine/memory", "engine/cas", "engine/quorum", "engine/goredis", "fence", "internal/queue", "web"} {
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

// TestRequirements: the go.mod of the library requires these modules, and no other for its
// tests either. What they need for themselves is marked as indirect.
func TestRequirements(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := requirements(string(text)), []string{cronReader, "github.com/redis/go-redis/v9"}; !slices.Equal(got, want) {
		t.Errorf("go.mod requires %q, want %q\n\twhy not: users of the library get all of it; see decision 0097", got, want)
	}
}

// requirements lists the modules that a go.mod requires directly.
func requirements(gomod string) []string {
	var out []string
	inBlock := false
	for line := range strings.Lines(gomod) {
		words := strings.Fields(strings.TrimPrefix(line, "require "))
		switch {
		case strings.HasPrefix(line, "require ("):
			inBlock = true
		case strings.HasPrefix(line, ")"):
			inBlock = false
		case (inBlock || strings.HasPrefix(line, "require ")) && len(words) == 2:
			out = append(out, words[0])
		}
	}
	return out
}

func TestRequirementsCanFail(t *testing.T) {
	got := requirements("module x\n\ngo 1.26.0\n\nrequire a.org/one v1.0.0\n\nrequire (\n\tb.org/two v1.0.0\n\tc.org/three v1.0.0 // indirect\n)\n")
	if want := []string{"a.org/one", "b.org/two"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
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

// TestCommandGraph: what operators install has no lab, no planted bugs and nothing for tests, and
// holdfast, which is started often, has no driver but that of Redis (decision 0131), and no protobuf (decision 0137).
func TestCommandGraph(t *testing.T) {
	tests := []string{"lab", "bench", "internal/redistest", "internal/sqlservers", "internal/zkservers", "internal/etcdservers", "internal/storetest"}
	for program, without := range map[string][]string{
		"cmd/holdfast":                 append(adapters(), append(tests, "cmd/holdfast/internal/stores")...),
		"cmd/holdfast/holdfast-stores": tests,
	} {
		graph := goList(t, program)
		for _, p := range graph {
			dir, own := home(p.ImportPath)
			heavy := program == "cmd/holdfast" && strings.HasPrefix(p.ImportPath, "google.golang.org/protobuf/")
			if p.ImportPath == "testing" || heavy || own && slices.ContainsFunc(without, func(top string) bool { return within(dir, top) }) {
				t.Errorf("%s is linked into %s", p.ImportPath, program)
			}
		}
		if len(graph) < 100 {
			t.Errorf("%s links only %d packages", program, len(graph))
		}
	}
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
	cmd := exec.Command("go", "list", "-deps", "-buildvcs=false", "-json=ImportPath,Standard,Imports", ".")
	cmd.Dir = filepath.Join("../..", dir)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	cmd.Env = append(os.Environ(), "GOWORK=off") // what a user's build sees
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, complaint.String())
	}
	return decode[listed](t, out)
}

// decode returns the packages that go list -json has printed.
func decode[T any](t *testing.T, out []byte) []T {
	t.Helper()
	var all []T
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p T
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}
