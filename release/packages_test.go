package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// packaging is what .goreleaser.yaml may have. make packages checks it with goreleaser itself and makes the packages,
// which takes too long for a test (decision 0147).
type packaging struct {
	Version     int
	ProjectName string `yaml:"project_name"`
	Before      struct{ Hooks []string }
	Builds      []build
	Archives    []struct {
		NameTemplate string `yaml:"name_template"`
		Files        []string
	}
	NFPMs []struct {
		PackageName                                string `yaml:"package_name"`
		Maintainer, Homepage, Description, License string
		Formats                                    []string
		Contents                                   []struct{ Src, Dst string }
	}
	HomebrewCasks []struct {
		Name, Homepage, Description, Caveats string
		Binaries, Manpages                   []string
		Completions                          map[string]string
		Repository                           struct{ Owner, Name string }
	} `yaml:"homebrew_casks"`
	DockersV2 []struct{ Images, Tags, Platforms []string } `yaml:"dockers_v2"`
	Checksum  struct {
		NameTemplate string `yaml:"name_template"`
	}
	SBOMs    []struct{ Artifacts string }
	Snapshot struct {
		VersionTemplate string `yaml:"version_template"`
	}
	Changelog struct{ Disable bool }
}

// build is a program of the packages.
type build struct {
	ID, Dir, Main, Binary string
	Env, Flags, Ldflags   []string
	Goos, Goarch          []string
	Ignore                []struct{ Goos, Goarch string }
}

// What the packages are made of is there after the hooks, and the programs need nothing else to run.
func TestPackages(t *testing.T) {
	top := checkout(t)
	config := packagingOf(t, top)
	for _, hook := range config.Before.Hooks {
		inShell(t, top, hook)
	}
	var files []string
	for _, a := range config.Archives {
		files = append(files, a.Files...)
	}
	for _, p := range config.NFPMs {
		for _, c := range p.Contents {
			files = append(files, c.Src)
		}
	}
	for _, c := range config.HomebrewCasks {
		files = append(files, c.Manpages...)
		for _, name := range c.Completions {
			files = append(files, name)
		}
	}
	if len(files) < 20 {
		t.Errorf("only %d files: %q", len(files), files)
	}
	for _, pattern := range files {
		found, err := filepath.Glob(filepath.Join(top, pattern))
		if err != nil || len(found) == 0 {
			t.Errorf("there is no %s: %v", pattern, err)
		}
		for _, name := range found {
			if info, err := os.Stat(name); err != nil || info.Size() == 0 {
				t.Errorf("%s is empty: %v", name, err)
			}
		}
	}
	for _, b := range config.Builds {
		b.static(t, top)
	}
}

// The image and the cask have the programs that are built.
func TestEveryPackageHasThePrograms(t *testing.T) {
	config := packagingOf(t, "..")
	var want []string
	for _, b := range config.Builds {
		want = append(want, b.Binary)
	}
	dockerfile, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	var image []string
	for _, m := range regexp.MustCompile(`\$TARGETPLATFORM/(\S+)`).FindAllSubmatch(dockerfile, -1) {
		image = append(image, string(m[1]))
	}
	if !slices.Equal(image, want) || !strings.Contains(string(dockerfile), `ENTRYPOINT ["/`+want[0]+`"]`) {
		t.Errorf("the image has %q, want %q, the first as its entry point", image, want)
	}
	for _, c := range config.HomebrewCasks {
		if !slices.Equal(c.Binaries, want) {
			t.Errorf("the cask has %q, want %q", c.Binaries, want)
		}
	}
	if len(config.HomebrewCasks)*len(config.DockersV2)*len(config.NFPMs)*len(config.SBOMs) != 1 || len(want) != 2 {
		t.Errorf("a cask, an image, packages, an SBOM and two programs are expected: %+v", config)
	}
}

// packagingOf reads .goreleaser.yaml. An unknown key is an error.
func packagingOf(t *testing.T, top string) packaging {
	t.Helper()
	f, err := os.Open(filepath.Join(top, ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var config packaging
	decoder := yaml.NewDecoder(f)
	decoder.KnownFields(true)
	if err := decoder.Decode(&config); err != nil {
		t.Fatal(err)
	}
	return config
}

// static builds the program for this machine as a release does, and checks that it is linked with no library.
func (b build) static(t *testing.T, top string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return // elsewhere Go programs need the system's library
	}
	program := filepath.Join(t.TempDir(), b.Binary)
	args := append([]string{"build", "-o", program, "-ldflags", strings.Join(b.Ldflags, " ")}, b.Flags...)
	cmd := exec.Command("go", append(args, "./"+b.Main)...)
	cmd.Dir, cmd.Env = filepath.Join(top, b.Dir), append(os.Environ(), b.Env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", b.ID, err, out)
	}
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	needed, _ := f.ImportedLibraries()
	loader := slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
	if len(needed) > 0 || loader {
		t.Errorf("%s needs %q, and a loader: %v", b.Binary, needed, loader)
	}
}

// inShell runs a line of a shell.
func inShell(t *testing.T, dir, line string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath") // as the programs are built
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
}
