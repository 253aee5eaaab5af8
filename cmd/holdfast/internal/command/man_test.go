package command

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// The cask of a release names each manual page, since it has no pattern for them.
func TestTheCaskHasEveryManualPage(t *testing.T) {
	folder := t.TempDir()
	if code := Main([]string{"holdfast", "man", folder}); code != 0 {
		t.Fatalf("holdfast man: exit code %d", code)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, e := range entries {
		want = append(want, e.Name())
	}
	config, err := os.ReadFile(filepath.Join("..", "..", "..", "..", ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^ +- build/man/(holdfast.*\.1)$`).FindAllSubmatch(config, -1) {
		got = append(got, string(m[1]))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the cask has %v, want %v", got, want)
	}
}
