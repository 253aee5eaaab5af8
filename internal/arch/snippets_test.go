package arch

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// pages have Go snippets, all of which are lines of the programs in examples,
// which are compiled and tested.
var pages = []string{"README.md", "README.zh-CN.md", "docs/COOKBOOK.md", "docs/MIGRATING.md"}

func TestSnippetsAreOfPrograms(t *testing.T) {
	programs := sources(t)
	for _, page := range pages {
		text := read(t, page)
		snippets := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(text, -1)
		if len(snippets) == 0 {
			t.Errorf("%s has no snippet", page)
		}
		for _, snippet := range snippets {
			if !found(programs, snippet[1]) {
				t.Errorf("%s: no program below examples has these lines:\n%s", page, snippet[1])
			}
		}
	}
}

func TestSnippetOfNoProgramIsFound(t *testing.T) {
	programs := []string{"func f() {\n\tif x {\n\t\ty()\n\n\t\tz()\n\t}\n}\n"}
	for snippet, want := range map[string]bool{"y()\n\nz()\n": true, "if x {\n\ty()\n": true, "x {\n": false, "y()\nz()\n": false} {
		if got := found(programs, snippet); got != want {
			t.Errorf("%q found: %v", snippet, got)
		}
	}
}

func sources(t *testing.T) []string {
	t.Helper()
	var out []string
	err := fs.WalkDir(os.DirFS("../../examples"), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile("../../examples/" + path)
		out = append(out, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// found reports whether the lines of a snippet stand in a program one after the
// other, all of them indented by the same number of tabs.
func found(programs []string, snippet string) bool {
	for tabs := range 5 {
		lines := "\n"
		for line := range strings.Lines(snippet) {
			if line != "\n" {
				lines += strings.Repeat("\t", tabs)
			}
			lines += line
		}
		for _, program := range programs {
			if strings.Contains("\n"+program, lines) {
				return true
			}
		}
	}
	return false
}
