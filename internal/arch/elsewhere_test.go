package arch

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// systems are those that the command is packaged for.
var systems = regexp.MustCompile(`(?m)^    goos: \[(.*?)\].*\n    goarch: \[(.*?)\]`)

// stores are the modules of the library that have drivers of their own.
var stores = []string{"./engine/postgres", "./engine/mysql", "./engine/sqlite", "./engine/etcd", "./engine/zookeeper", "./otelholdfast"}

// The library and the command are type-checked for every system that .goreleaser.yaml
// names, the library for Windows too, and there and on FreeBSD all of its modules. That finds
// what go build would find there in a tenth of its time; make cross builds them.
func TestBuildsElsewhere(t *testing.T) {
	library, command := "./...", "./cmd/holdfast/..."
	targets := map[string][]string{"windows/amd64": append([]string{library}, stores...)}
	named := systems.FindStringSubmatch(read(t, ".goreleaser.yaml"))
	if named == nil {
		t.Fatal(".goreleaser.yaml names no systems")
	}
	for _, system := range strings.Split(named[1], ", ") {
		for _, arch := range strings.Split(named[2], ", ") {
			if arch = strings.Trim(arch, `"`); arch != "386" || system == "linux" {
				targets[system+"/"+arch] = []string{library, command}
			}
		}
	}
	if len(targets) < 6 {
		t.Errorf("only %d targets", len(targets))
	}
	for target, patterns := range targets {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			checked, failures := typeCheck(t, target, patterns...)
			for _, f := range failures {
				t.Error(f)
			}
			if checked < 100 {
				t.Errorf("only %d packages were checked", checked)
			}
		})
	}
}

func TestWhatDoesNotBuildElsewhereIsFound(t *testing.T) {
	for target, want := range map[string]bool{"linux/amd64": false, "windows/amd64": true} {
		_, failures := typeCheck(t, target, "./internal/arch/testdata/elsewhere")
		if found := strings.Contains(fmt.Sprint(failures), "undefined: syscall.Kill"); found != want {
			t.Errorf("%s: %v", target, failures)
		}
	}
}

// portable is a package as go list prints it.
type portable struct {
	ImportPath, Dir string
	Standard        bool
	GoFiles         []string
	ImportMap       map[string]string
	Error           *struct{ Err string }
}

// typeCheck checks packages of the project, with all that they import, as a target builds
// them. It returns how many it has checked, and what is wrong.
func typeCheck(t *testing.T, target string, patterns ...string) (checked int, failures []string) {
	t.Helper()
	system, arch, _ := strings.Cut(target, "/")
	fail := func(err error) { failures = append(failures, fmt.Sprintf("%s: %v", target, err)) }
	done, files := map[string]*types.Package{"unsafe": types.Unsafe}, token.NewFileSet()
	for _, p := range list(t, system, arch, patterns) {
		if p.Error != nil {
			fail(errors.New(p.Error.Err))
		}
		if p.ImportPath == "unsafe" {
			continue
		}
		var sources []*ast.File
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				fail(err)
			}
			sources = append(sources, f)
		}
		config := types.Config{
			Importer:         importer{done, p.ImportMap},
			IgnoreFuncBodies: p.Standard,
			Sizes:            types.SizesFor("gc", arch),
			Error: func(err error) {
				if !p.Standard { // what the compiler itself supplies has no body
					fail(err)
				}
			},
		}
		done[p.ImportPath], _ = config.Check(p.ImportPath, files, sources, nil) // errors went to Error
		checked++
	}
	return checked, failures
}

// list returns packages and all that they import, each after its imports.
func list(t *testing.T, system, arch string, patterns []string) []portable {
	t.Helper()
	args := []string{"list", "-e", "-deps", "-json=ImportPath,Dir,Standard,GoFiles,ImportMap,Error"}
	cmd := exec.Command("go", append(args, patterns...)...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return decode[portable](t, out)
}

// importer finds what a package imports among those that are checked.
type importer struct {
	done  map[string]*types.Package
	names map[string]string // of paths that are vendored in the standard library
}

func (i importer) Import(path string) (*types.Package, error) {
	if mapped, ok := i.names[path]; ok {
		path = mapped
	}
	if p := i.done[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s is not there", path)
}
