// Command release tags a version of every module of the repository.
//
// In the working tree the modules refer to each other by replace directives, with which
// `go install …@version` refuses to work. So a release is a commit of its own, beside the
// branch: in it the go.mod files require each other at the version, without the
// directives, and their go.sum files have the hashes. All tags are on that commit.
//
//	go run ./release -version v0.2.0        # a dry run: what would be tagged
//	go run ./release -version v0.2.0 -tag   # commit and tags in this repository
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

func main() {
	version := flag.String("version", "", "the version, such as v0.2.0")
	tag := flag.Bool("tag", false, "make the commit and the tags; without it, print them only")
	flag.Parse()
	if err := run(os.Stdout, *version, *tag); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, version string, tag bool) error {
	if semver.Canonical(version) != version || semver.Major(version) > "v1" {
		return fmt.Errorf("-version %q: want vMAJOR.MINOR.PATCH below v2, such as v0.2.0", version)
	}
	top, err := git(".", "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	dirty, err := git(top, "status", "--porcelain")
	if err != nil {
		return err
	}
	if dirty != "" {
		return fmt.Errorf("the tree has uncommitted changes; commit or remove them first:\n%s", dirty)
	}
	dir, err := os.MkdirTemp("", "release-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	dir = filepath.Join(dir, "tree")
	if _, err := git(top, "clone", "--quiet", "--shared", ".", dir); err != nil {
		return err
	}
	for _, key := range []string{"user.name", "user.email"} { // the clone has not those of the repository
		if value, err := git(top, "config", key); err == nil {
			if _, err := git(dir, "config", key, value); err != nil {
				return err
			}
		}
	}
	modules, err := commit(dir, version)
	if err != nil {
		return err
	}
	stat, err := git(dir, "show", "--stat", "--format=commit %h%n%n    %s%n", "HEAD")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, stat)
	var tags []string
	for _, m := range modules {
		tags = append(tags, m.tag(version))
	}
	if !tag {
		fmt.Fprintf(out, "\nDry run. With -tag these tags are made on that commit:\n\t%s\n", strings.Join(tags, "\n\t"))
		return nil
	}
	refs := []string{"fetch", "--quiet", dir}
	for _, t := range tags {
		if _, err := git(dir, "tag", "--annotate", "--message", "Holdfast "+version, t); err != nil {
			return err
		}
		refs = append(refs, "refs/tags/"+t+":refs/tags/"+t)
	}
	if _, err := git(top, refs...); err != nil {
		return fmt.Errorf("%w (is the version tagged already?)", err)
	}
	fmt.Fprintf(out, "\nTagged. To publish:\n\tgit push --atomic origin %s\n", strings.Join(tags, " "))
	return nil
}
