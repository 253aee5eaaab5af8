package command

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestJSONPage compares docs/JSON.md with the fields and events in the source.
func TestJSONPage(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/JSON.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	field := regexp.MustCompile("json:\"(\\w+)|\\b(?:detail|notice|failure)\\(\"([\\w-]+)\"")
	found := 0
	for _, file := range append(files, "../diagnosis/finding.go", "../diagnosis/report.go", "../../../../internal/describe/json_snapshot.go") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range field.FindAllStringSubmatch(string(text), -1) {
			found++
			if name := m[1] + m[2]; !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/JSON.md does not name %q of %s", name, file)
			}
		}
	}
	if found < 80 {
		t.Errorf("found %d fields and events in the source, want at least 80", found)
	}
}
