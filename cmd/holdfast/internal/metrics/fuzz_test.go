package metrics

import (
	"os"
	"path/filepath"
	"testing"
)

// The file of a run before this one has its value, or is an error: no bytes of it are a value of another metric.
func FuzzReadFile(f *testing.F) {
	for _, text := range []string{"# HELP a b\na 1\n", "a{b=\"c\"} 2e3\n", "a\n", " 1", "a NaN\n\na 2", "\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "m")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if v, ok, err := ReadFile(path, "b"); err != nil && ok || !ok && v != 0 {
			t.Errorf("%q: %v, %v, %v", text, v, ok, err)
		}
	})
}
