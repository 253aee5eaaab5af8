package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// private are the folders of the modules that are not released: tests and tools, which
// nobody installs or imports.
var private = []string{"release", "bench", "contrib", "examples", "examples/migrating", "fence/sqltest", "internal/etcdservers/etcdmember", "internal/redistest/miniredis", "web/webtest"}

// goModule is a module of the repository.
type goModule struct {
	path string
	dir  string // below the top of the repository, with slashes; "." is the top
	file *modfile.File
}

// tag is the tag of a version: "v0.2.0", and "cmd/holdfast/v0.2.0" of a module below the top.
func (m *goModule) tag(version string) string {
	return path.Join(m.dir, version)
}

// modules returns the modules to release, each after those that it requires.
func modules(top string) ([]*goModule, error) {
	files, err := git(top, "ls-files", "--", "go.mod", "*/go.mod")
	if err != nil {
		return nil, err
	}
	all := map[string]*goModule{}
	for _, name := range strings.Fields(files) {
		dir := path.Dir(name)
		if slices.Contains(private, dir) || strings.Contains(name, "/testdata/") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		f, err := modfile.Parse(name, data, nil)
		if err != nil {
			return nil, err
		}
		all[f.Module.Mod.Path] = &goModule{f.Module.Mod.Path, dir, f}
	}
	return inOrder(all)
}

// inOrder sorts modules so that each stands after those that it requires.
func inOrder(all map[string]*goModule) (sorted []*goModule, err error) {
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	for len(sorted) < len(all) {
		before := len(sorted)
		for _, name := range names {
			m := all[name]
			ready := !slices.Contains(sorted, m) && !slices.ContainsFunc(m.siblings(), func(r string) bool {
				return all[r] != nil && !slices.Contains(sorted, all[r])
			})
			if ready {
				sorted = append(sorted, m)
			}
		}
		if len(sorted) == before {
			return nil, fmt.Errorf("modules require each other in a circle: %v", names)
		}
	}
	for _, m := range sorted {
		for _, r := range m.siblings() {
			if all[r] == nil {
				return nil, fmt.Errorf("%s requires %s, which is not released", m.path, r)
			}
		}
	}
	return sorted, nil
}

// siblings are the modules of this repository that the module requires.
func (m *goModule) siblings() (paths []string) {
	for _, r := range m.file.Require {
		if r.Mod.Path == repository || strings.HasPrefix(r.Mod.Path, repository+"/") {
			paths = append(paths, r.Mod.Path)
		}
	}
	return paths
}

// require makes the module require its siblings at the version, without replacing them,
// and adds their hashes to its go.sum.
func (m *goModule) require(top, version string, sums map[string]string) error {
	for _, sibling := range m.siblings() {
		if err := m.file.DropReplace(sibling, ""); err != nil {
			return err
		}
		if err := m.file.AddRequire(sibling, version); err != nil {
			return err
		}
	}
	m.file.Cleanup()
	data, err := m.file.Format()
	if err != nil {
		return err
	}
	dir := filepath.Join(top, filepath.FromSlash(m.dir))
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), data, 0o644); err != nil {
		return err
	}
	name := filepath.Join(dir, "go.sum")
	sum, err := os.ReadFile(name)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	lines := strings.SplitAfter(string(sum), "\n")
	for _, sibling := range m.siblings() {
		lines = append(lines, sums[sibling])
	}
	slices.Sort(lines)
	return os.WriteFile(name, []byte(strings.Join(lines, "")), 0o644)
}

// repository is the path that all modules of the repository begin with.
const repository = "github.com/holdfast-go/holdfast"
