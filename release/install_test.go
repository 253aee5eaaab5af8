package main

import (
	"cmp"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/module"
)

// version is the version that the test releases.
const version = "v0.99.0"

// A release is installed in empty folders, with a module proxy in place of the network's: each program that a text of
// the repository says to install, each module of the library, and the README's program by the README's commands.
func TestInstall(t *testing.T) {
	top := checkout(t)
	all, err := commit(top, version)
	if err != nil {
		t.Fatal(err)
	}
	u := newUser(t, proxy(t, top, all))

	for _, program := range recommended(t, top) {
		u.run(t, u.empty(t), "go", "install", program+"@"+version)
	}
	if said := u.run(t, u.home, filepath.Join(u.bin, "holdfast"), "version"); !strings.Contains(said, version) {
		t.Errorf("holdfast version: %s", said)
	}
	if said := u.run(t, u.home, filepath.Join(u.bin, "holdfast"), "--store", "sqlite://"+filepath.Join(u.home, "locks.db"), "migrate"); !strings.Contains(said, "the tables are there") {
		t.Errorf("holdfast on SQLite: %s", said)
	}
	if said := u.run(t, u.home, filepath.Join(u.bin, "holdfast"), "torture", "-help"); !strings.Contains(said, "-subject") {
		t.Errorf("holdfast torture: %s", said)
	}

	for _, m := range all {
		if !programs[m.dir] {
			u.imports(t, m.path)
		}
	}
	u.imports(t, repository+"/engine/goredis", repository+"/engine/quorum", repository+"/engine/memory", repository+"/fence")
	u.first(t)
}

// programs are the modules that nobody imports.
var programs = map[string]bool{"cmd/holdfast": true, "lab": true}

// recommended returns the programs that texts of the repository say to install.
func recommended(t *testing.T, top string) []string {
	t.Helper()
	said, err := git(top, "grep", "-h", "-o", "-E", "go install "+repository+"/[a-z/-]+@")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(said) {
		all = append(all, strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "go install "), "@"))
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) != 3 {
		t.Fatalf("the texts say to install %q, want the command, the same with all stores, and the lab", all)
	}
	return all
}

// imports gets packages in an empty folder and builds a program that imports them.
func (u *user) imports(t *testing.T, packages ...string) {
	t.Helper()
	app := u.empty(t)
	u.run(t, app, "go", "mod", "init", "example.org/app")
	var lines strings.Builder
	for _, p := range packages {
		u.run(t, app, "go", "get", p+"@"+version)
		lines.WriteString("import _ \"" + p + "\"\n")
	}
	write(t, filepath.Join(app, "main.go"), "package main\n"+lines.String()+"func main() {}\n")
	u.run(t, app, "go", "build", "-o", os.DevNull, ".")
}

// first follows the README in an empty folder, and logs how long that takes.
func (u *user) first(t *testing.T) {
	t.Helper()
	program, commands := readme(t)
	server(t)
	start, folder := time.Now(), u.empty(t)
	write(t, filepath.Join(folder, "main.go"), program)
	var said string
	for _, command := range commands {
		said = u.run(t, folder, "sh", "-c", command)
	}
	if !strings.Contains(said, "held with fencing token") {
		t.Errorf("README's program: %s", said)
	}
	t.Logf("from an empty folder to the first lock: %v", time.Since(start).Round(100*time.Millisecond))
}

// The release's go.mod files name the version, and no folder.
func TestCommit(t *testing.T) {
	top := checkout(t)
	all, err := commit(top, version)
	if err != nil {
		t.Fatal(err)
	}
	var tags []string
	for _, m := range all {
		tags = append(tags, m.tag(version))
		for _, r := range m.siblings() {
			name := filepath.Join(top, filepath.FromSlash(m.dir), "go.sum")
			if sums, err := os.ReadFile(name); err != nil || strings.Count(string(sums), r+" "+version) != 2 {
				t.Errorf("%s: go.sum has not two lines of %s: %v", m.path, r, err)
			}
		}
		data, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(m.dir), "go.mod"))
		if err != nil || strings.Contains(string(data), "=> .") || strings.Contains(string(data), "v0.0.0\n") {
			t.Errorf("%s: %v\n%s", m.path, err, data)
		}
	}
	if got := strings.Join(tags, " "); !strings.HasPrefix(got, version+" ") || !strings.Contains(got, " cmd/holdfast/"+version) {
		t.Errorf("tags %s", got)
	}
	if dirty, err := git(top, "status", "--porcelain"); err != nil || dirty != "" {
		t.Errorf("not in the commit: %s, %v", dirty, err)
	}
}

// checkout is a repository with the files of this one as they are now, committed or not.
func checkout(t *testing.T) string {
	t.Helper()
	for _, role := range []string{"AUTHOR", "COMMITTER"} {
		t.Setenv("GIT_"+role+"_NAME", "test")
		t.Setenv("GIT_"+role+"_EMAIL", "test@example.org")
	}
	top := t.TempDir()
	files, err := git("..", "ls-files", "--cached", "--others", "--exclude-standard")
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.Lines(files) {
		name = strings.TrimSpace(name)
		data, err := os.ReadFile(filepath.Join("..", name))
		if os.IsNotExist(err) {
			continue // deleted, and not committed
		}
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(top, name), string(data))
	}
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "--all"}, {"commit", "--quiet", "--message", "tree"}} {
		if _, err := git(top, args...); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

// proxy is a folder that the go command takes for a module proxy (go help goproxy).
func proxy(t *testing.T, top string, all []*goModule) string {
	t.Helper()
	root := t.TempDir()
	for _, m := range all {
		escaped, err := module.EscapePath(m.path)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(root, escaped, "@v")
		mod, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(m.dir), "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "list"), version+"\n")
		write(t, filepath.Join(dir, version+".info"), `{"Version":"`+version+`"}`)
		write(t, filepath.Join(dir, version+".mod"), string(mod))
		if err := m.zip(top, version, filepath.Join(dir, version+".zip")); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// user is someone with Go and nothing of Holdfast.
type user struct {
	home, bin string
	env       []string
}

func newUser(t *testing.T, proxy string) *user {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(string(out))
	u := &user{home: t.TempDir()}
	u.bin = filepath.Join(u.home, "bin")
	u.env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOFLAGS=-modcacherw -trimpath", "GOBIN="+u.bin, "GOMODCACHE="+filepath.Join(u.home, "modules"),
		"GOSUMDB=off", "GOPROXY=file://"+proxy+",file://"+filepath.Join(known[0], "cache", "download")+","+known[1])
	return u
}

// readme returns the program of README.md and the commands that it names for it, which are those of README.zh-CN.md too.
func readme(t *testing.T) (program string, commands []string) {
	t.Helper()
	for _, page := range []string{"README.zh-CN.md", "README.md"} {
		text, err := os.ReadFile(filepath.Join("..", page))
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)```go\n(package main\n.*?)```.*?```\n(go mod init .*?)\n```").FindSubmatch(text)
		if blocks == nil {
			t.Fatalf("%s has no program, or no commands for it", page)
		}
		before := commands
		program, commands = string(blocks[1]), strings.Split(string(blocks[2]), "\n")
		if before != nil && !slices.Equal(before, commands) {
			t.Errorf("README.zh-CN.md has %q, README.md %q", before, commands)
		}
	}
	return program, commands
}

// server starts a Redis, for the programs that the user runs.
func server(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	_, port, _ := strings.Cut(addr, ":")
	server := exec.Command(cmp.Or(os.Getenv("HOLDFAST_REDIS_SERVER"), "redis-server"), "--port", port, "--save", "", "--dir", t.TempDir())
	if err := server.Start(); err != nil {
		t.Fatalf("%v: make redis installs it", err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	t.Setenv("REDIS_ADDR", addr)
}

// empty is a new folder.
func (u *user) empty(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(u.home, "empty-*")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// run runs a command in a folder and returns what it printed.
func (u *user) run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = dir, append(u.env, "REDIS_ADDR="+os.Getenv("REDIS_ADDR"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
