package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/holdfast-go/holdfast"

// tree is the source of the project, parsed but not type-checked: the rules
// work on a tree that does not compile, and on every build tag at once.
type tree struct {
	fset    *token.FileSet
	folders []*folder
	// decisions is the text of docs/decisions, which may name exceptions.
	decisions string
	scripts   []*source // files in Lua; without a syntax tree
	pages     []*source // Markdown but for the records of what was: decisions and the change log
}

// folder is one folder of Go files.
type folder struct {
	dir   string // "" is the root
	files []*source
}

type source struct {
	path  string
	text  []byte
	lines int
	test  bool // named _test.go
	ast   *ast.File
}

// finding is one violation. A line of 0 means the whole file.
type finding struct {
	path string
	line int
	text string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.text) }

// load parses a project, all its modules together: nested modules keep the
// path that their folder gives them.
func load(t *testing.T, fsys fs.FS) *tree {
	t.Helper()
	tr := &tree{fset: token.NewFileSet()}
	byDir := map[string]*folder{}
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p != "." && (name == "testdata" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")) {
				return fs.SkipDir
			}
			return nil
		}
		return tr.add(fsys, byDir, p)
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(tr.folders, func(a, b *folder) int { return strings.Compare(a.dir, b.dir) })
	return tr
}

func (tr *tree) add(fsys fs.FS, byDir map[string]*folder, p string) error {
	ext := path.Ext(p)
	if ext != ".go" && ext != ".lua" && ext != ".md" {
		return nil
	}
	text, err := fs.ReadFile(fsys, p)
	if err != nil {
		return err
	}
	src := &source{path: p, text: text, lines: bytes.Count(text, []byte("\n")), test: strings.HasSuffix(p, "_test.go")}
	switch {
	case ext == ".lua":
		tr.scripts = append(tr.scripts, src)
		return nil
	case ext == ".md":
		if path.Dir(p) == "docs/decisions" {
			tr.decisions += string(text)
		} else if p != "CHANGELOG.md" {
			tr.pages = append(tr.pages, src)
		}
		return nil
	}
	if src.ast, err = parser.ParseFile(tr.fset, p, text, parser.ParseComments); err != nil {
		return err
	}
	dir := strings.TrimPrefix(path.Dir(p), ".")
	if byDir[dir] == nil {
		byDir[dir] = &folder{dir: dir}
		tr.folders = append(tr.folders, byDir[dir])
	}
	byDir[dir].files = append(byDir[dir].files, src)
	return nil
}

func (tr *tree) at(n ast.Node, format string, args ...any) finding {
	p := tr.fset.Position(n.Pos())
	return finding{path: p.Filename, line: p.Line, text: fmt.Sprintf(format, args...)}
}

// each calls f for every file that the filter lets through.
func (tr *tree) each(want func(*folder, *source) bool, f func(*folder, *source)) {
	for _, r := range tr.folders {
		for _, s := range r.files {
			if want(r, s) {
				f(r, s)
			}
		}
	}
}

// product lets through what users run: no tests, no support of tests.
func product(r *folder, s *source) bool { return !s.test && !r.support() }

// support is code for tests outside _test.go files.
func (r *folder) support() bool {
	return slices.ContainsFunc([]string{"internal/redistest", "internal/sqlservers", "internal/zkservers", "internal/etcdservers", "internal/storetest", "internal/faulttest", "internal/primitivetest", "internal/random", "internal/leaktest", "internal/arch", "engine/enginetest", "cmd/holdfast/internal/transcript"}, r.in)
}

// in reports whether the folder is the folder or lies below it.
func (r *folder) in(dir string) bool { return within(r.dir, dir) }

func within(dir, top string) bool { return dir == top || strings.HasPrefix(dir, top+"/") }

func (r *folder) label() string {
	if r.dir == "" {
		return "the root package"
	}
	return r.dir
}

func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return spec.Path.Value
	}
	return p
}

// home returns the folder of an import inside the project.
func home(p string) (dir string, ok bool) {
	if p == module {
		return "", true
	}
	return strings.CutPrefix(p, module+"/")
}

// standard reports whether an import is of the standard library.
func standard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

// selector returns the two halves of x.Sel, where x is a plain name.
func selector(n ast.Node) (x, sel string, ok bool) {
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", "", false
	}
	id, ok := s.X.(*ast.Ident)
	if !ok {
		return "", "", false
	}
	return id.Name, s.Sel.Name, true
}
