package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// packaged are the programs of the packages, and a module that each of them is made of.
var packaged = map[string]string{"holdfast": "github.com/redis/go-redis/v9", "holdfast-stores": "github.com/jackc/pgx/v5"}

// make packages makes what a release publishes for each system: an archive and, on Linux, a deb and an rpm, with the
// programs, manual pages and completions; a list of the modules in each program; a cask; and the checksums of all. A
// system takes a minute or two to compile, so two of them, of this machine's architecture, stand for all unless HOLDFAST_LONG is set.
func TestPackages(t *testing.T) {
	top := checkout(t)
	systems := []string{"linux_amd64", "linux_arm64", "linux_386", "darwin_amd64", "darwin_arm64", "freebsd_amd64", "freebsd_arm64"}
	if os.Getenv("HOLDFAST_LONG") == "" {
		systems = []string{"linux_" + runtime.GOARCH, "darwin_" + runtime.GOARCH}
		config := filepath.Join(top, ".goreleaser.yaml")
		text := string(read(t, config))
		for all, few := range map[string]string{"goos: [linux, darwin, freebsd]": "goos: [linux, darwin]", `goarch: [amd64, arm64, "386"]`: "goarch: [" + runtime.GOARCH + "]"} {
			if strings.Count(text, all) != 1 {
				t.Fatalf("%s does not have %q once", config, all)
			}
			text = strings.Replace(text, all, few, 1)
		}
		write(t, config, text)
	}
	cmd := exec.Command("make", "packages")
	cmd.Dir = top
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make packages: %v\n%s", err, out)
	}
	dist := filepath.Join(top, "dist")
	summed := checkSums(t, dist)
	cask := read(t, filepath.Join(dist, "homebrew", "Casks", "holdfast.rb"))
	var promised []string // that the cask takes from the archive
	for _, m := range regexp.MustCompile(`(?m)^ *(?:binary|manpage|\w+_completion) "([^"]+)"`).FindAllSubmatch(cask, -1) {
		promised = append(promised, string(m[1]))
	}
	if len(promised) < 20 || !bytes.Contains(cask, []byte("https://"+repository+"/releases/")) {
		t.Errorf("the cask:\n%s", cask)
	}

	if archives := slices.DeleteFunc(slices.Clone(summed), func(f string) bool { return filepath.Ext(f) != ".gz" }); len(archives) != len(systems) {
		t.Errorf("there are archives %q, not one of each of %v", archives, systems)
	}
	for _, system := range systems {
		name := "holdfast_*_" + system
		files := archived(t, one(t, summed, name+".tar.gz"))
		for _, f := range slices.Concat(promised, []string{"holdfast", "holdfast-stores", "LICENSE", "README.md", "README.zh-CN.md"}) {
			if len(files[f]) == 0 {
				t.Errorf("%s: %s is missing or empty", system, f)
			}
		}
		for program, module := range packaged {
			checkModules(t, one(t, summed, program+"_*_"+system+".cdx.json"), module)
			if system == runtime.GOOS+"_"+runtime.GOARCH {
				checkProgram(t, program, files[program])
			}
		}
		if strings.HasPrefix(system, "linux") {
			checkDeb(t, one(t, summed, name+".deb"))
			if rpm := read(t, one(t, summed, name+".rpm")); !bytes.HasPrefix(rpm, []byte("\xed\xab\xee\xdb")) {
				t.Errorf("%s: the rpm begins with %q", system, rpm[:4])
			}
		}
	}
}

// The image, which needs docker and so is not made here, has the programs.
func TestImageHasThePrograms(t *testing.T) {
	dockerfile := string(read(t, "../Dockerfile"))
	for program := range packaged {
		if !strings.Contains(dockerfile, " $TARGETPLATFORM/"+program+" ") {
			t.Errorf("the image lacks %s", program)
		}
	}
	if !strings.Contains(dockerfile, `ENTRYPOINT ["/holdfast"]`) || !strings.Contains(dockerfile, "\nFROM scratch\n") {
		t.Errorf("the image:\n%s", dockerfile)
	}
}

// checkSums compares the checksums with the files, and returns these.
func checkSums(t *testing.T, dist string) (files []string) {
	t.Helper()
	for line := range strings.Lines(string(read(t, filepath.Join(dist, "checksums.txt")))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		name = filepath.Join(dist, name)
		if got := fmt.Sprintf("%x", sha256.Sum256(read(t, name))); got != sum {
			t.Errorf("%s has the checksum %s, not %s", name, got, sum)
		}
		files = append(files, name)
	}
	return files
}

// one returns the only file whose name matches.
func one(t *testing.T, files []string, pattern string) string {
	t.Helper()
	var found []string
	for _, f := range files {
		if ok, _ := filepath.Match(pattern, filepath.Base(f)); ok {
			found = append(found, f)
		}
	}
	if len(found) != 1 {
		t.Fatalf("checksums.txt has %q of %s", found, pattern)
	}
	return found[0]
}

// archived returns the files of an archive.
func archived(t *testing.T, name string) map[string][]byte {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(read(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(unzipped); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if files[h.Name], err = io.ReadAll(archive); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// checkModules looks for a module with its version in a software bill of materials.
func checkModules(t *testing.T, name, module string) {
	t.Helper()
	var bill struct {
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(read(t, name), &bill); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for _, c := range bill.Components {
		if c.Name == module && strings.HasPrefix(c.Version, "v") {
			return
		}
	}
	t.Errorf("%s does not name %s: %v", name, module, bill.Components)
}

// checkProgram runs a program, which must be linked with no library.
func checkProgram(t *testing.T, name string, program []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, program, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(file, "version").CombinedOutput(); err != nil || !bytes.Contains(out, []byte("go1.")) {
		t.Errorf("%s version: %v: %s", name, err, out)
	}
	if runtime.GOOS != "linux" {
		return // elsewhere Go programs need the system's library
	}
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		t.Fatal(err)
	}
	needed, _ := f.ImportedLibraries()
	loader := slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	if len(needed) > 0 || loader {
		t.Errorf("%s needs %q, and a loader: %v", name, needed, loader)
	}
}

// checkDeb looks into a deb.
func checkDeb(t *testing.T, name string) {
	t.Helper()
	out, err := exec.Command("dpkg-deb", "--contents", name).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
	for _, f := range []string{
		"bin/holdfast", "bin/holdfast-stores", "share/man/man1/holdfast.1", "share/man/man1/holdfast-run.1",
		"share/bash-completion/completions/holdfast", "share/zsh/site-functions/_holdfast", "share/fish/vendor_completions.d/holdfast.fish",
	} {
		if !bytes.Contains(out, []byte(" ./usr/"+f+"\n")) {
			t.Errorf("%s lacks %s:\n%s", name, f, out)
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
