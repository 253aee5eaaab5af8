package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Without -tag a release prints the tags and leaves the repository as it was. With it all tags are on one commit, which is on
// no branch, and a version that is tagged already is refused.
func TestDryRunAndTags(t *testing.T) {
	top := checkout(t)
	before := references(t, top)
	var out bytes.Buffer
	t.Chdir(top)
	if err := run(&out, version, false); err != nil {
		t.Fatal(err)
	}
	tags := []string{version, "cmd/holdfast/" + version, "engine/postgres/" + version}
	for _, tag := range tags {
		if !strings.Contains(out.String(), "\t"+tag+"\n") {
			t.Errorf("no tag %s:\n%s", tag, &out)
		}
	}
	if after := references(t, top); after != before {
		t.Errorf("the repository was\n%s\nand is\n%s", before, after)
	}

	if err := run(&out, version, true); err != nil {
		t.Fatal(err)
	}
	commits, err := git(top, "rev-parse", tags[0]+"^{commit}", tags[1]+"^{commit}", tags[2]+"^{commit}")
	if all := slices.Compact(strings.Fields(commits)); err != nil || len(all) != 1 {
		t.Fatalf("the tags are on %q, %v", all, err)
	}
	if on, err := git(top, "branch", "--contains", version); err != nil || on != "" {
		t.Errorf("the commit is on %s, %v", on, err)
	}
	if err := run(&out, version, true); err == nil {
		t.Error("the version was tagged twice")
	}
}

// references are all names of a repository, with HEAD and what is not committed.
func references(t *testing.T, top string) string {
	t.Helper()
	var all []string
	for _, args := range [][]string{{"show-ref", "--head"}, {"status", "--porcelain"}} {
		out, err := git(top, args...)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, out)
	}
	return strings.Join(all, "\n")
}

// The command that is built in a checkout prints the commit.
func TestVersionNamesTheCommit(t *testing.T) {
	top := checkout(t)
	commit, err := git(top, "rev-parse", "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "holdfast")
	build := exec.Command("go", "build", "-buildvcs=true", "-trimpath", "-o", program, "./cmd/holdfast")
	build.Dir, build.Env = top, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	said, err := exec.Command(program, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(said), "("+commit[:12]+")") {
		t.Errorf("holdfast version: %v: %s, want (%s)", err, said, commit[:12])
	}
}
