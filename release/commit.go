package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// commit makes the release's commit in a work tree and returns the modules, each after
// those that it requires.
func commit(top, version string) ([]*goModule, error) {
	all, err := modules(top)
	if err != nil {
		return nil, err
	}
	sums := map[string]string{} // lines of go.sum, by module
	for i, m := range all {
		if err := m.require(top, version, sums); err != nil {
			return nil, err
		}
		amend := []string{"commit", "--quiet", "--all", "--allow-empty", "--message", "Holdfast " + version}
		if i > 0 {
			amend = append(amend, "--amend")
		}
		if _, err := git(top, amend...); err != nil {
			return nil, err
		}
		if sums[m.path], err = m.sum(top, version); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// sum returns the module's two lines of a go.sum.
func (m *goModule) sum(top, version string) (string, error) {
	name := filepath.Join(os.TempDir(), fmt.Sprintf("release-%d.zip", os.Getpid()))
	defer os.Remove(name)
	if err := m.zip(top, version, name); err != nil {
		return "", err
	}
	hash, err := dirhash.HashZip(name, dirhash.Hash1)
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(m.dir), "go.mod"))
	if err != nil {
		return "", err
	}
	mod, err := dirhash.Hash1([]string{"go.mod"}, opener(data))
	return fmt.Sprintf("%s %s %s\n%[1]s %[2]s/go.mod %[4]s\n", m.path, version, hash, mod), err
}

// zip writes the module as the go command would download it.
func (m *goModule) zip(top, version, name string) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	dir := m.dir
	if dir == "." {
		dir = ""
	}
	if err := zip.CreateFromVCS(f, module.Version{Path: m.path, Version: version}, top, "HEAD", dir); err != nil {
		return err
	}
	return f.Close()
}

// git runs a git command in a folder and returns what it prints.
func git(dir string, args ...string) (string, error) {
	var out, errs bytes.Buffer
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errs.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

// opener gives dirhash one file's content.
func opener(data []byte) func(string) (io.ReadCloser, error) {
	return func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}
