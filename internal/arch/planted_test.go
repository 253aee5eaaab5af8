package arch

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// TestEachRuleCanFail runs every rule on a small project of its own with a
// violation at each line that ends in "// want", and decoys elsewhere. The rule
// must find those lines and no other.
func TestEachRuleCanFail(t *testing.T) {
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			fsys, want := planted(t, r.name)
			if len(want) == 0 {
				t.Fatal("nothing is planted for this rule")
			}
			var got []string
			for _, f := range r.check(load(t, fsys)) {
				got = append(got, fmt.Sprintf("%s:%d", f.path, f.line))
			}
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got, want) {
				t.Fatalf("found   %q\nplanted %q", got, want)
			}
		})
	}
}

// planted returns a project and the path:line of each violation in it. It is
// in testdata, or made here where size matters.
func planted(t *testing.T, name string) (fsys fs.FS, want []string) {
	t.Helper()
	long := func(n int) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("// Package x is long.\npackage x\n" + strings.Repeat("\n", n-2))}
	}
	switch name {
	case "file-size":
		return fstest.MapFS{
			"x/edge.go":                   long(maxFile),
			"x/over.go":                   long(maxFile + 1),
			"x/known.go":                  long(maxFile + 1),
			"x/over.lua":                  &fstest.MapFile{Data: bytes.Repeat([]byte("\n"), maxFile+1)},
			"docs/decisions/0001-size.md": &fstest.MapFile{Data: []byte("x/known.go is one table")},
		}, []string{"x/over.go:0", "x/over.lua:0"}
	case "function-size":
		body := func(name string, n int) string { return "func " + name + "() {" + strings.Repeat("\n", n-1) + "}\n" }
		text := "package x\n" + body("edge", maxFunction) + body("over", maxFunction+1)
		return fstest.MapFS{"x/x.go": &fstest.MapFile{Data: []byte(text)}}, []string{fmt.Sprintf("x/x.go:%d", 2+maxFunction)}
	}
	dir := path.Join("testdata/planted", name)
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("no planted violation: %v", err)
	}
	return os.DirFS(dir), marked(t, os.DirFS(dir))
}

// marked lists path:line of every line that ends in "// want", in order.
func marked(t *testing.T, fsys fs.FS) []string {
	t.Helper()
	var out []string
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(fsys, p)
		if err != nil {
			return err
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			if strings.HasSuffix(strings.TrimRight(line, "\n"), "// want") {
				out = append(out, fmt.Sprintf("%s:%d", p, n))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}
