package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
)

// starts is a shell that runs the command: how long until it has ended. listed is the number of leases that it lists.
func starts(listed int) scenario {
	return scenario{
		name: "start", title: "a program from its start to its end, on all CPUs",
		columns: []metric{startP50, startMin, startCPU},
		cases: []variant{
			{"version", []string{"holdfast version", "a Go program that prints a line", "sh -c true"}, measureStart, nil},
			{"run", []string{"holdfast run x -- true", "flock x true", "sh -c true"}, measureStart, nil},
			{"ls of " + thousands(listed), []string{"holdfast ls"}, measureList(listed), nil},
		},
	}
}

// commandContender is a program and its arguments. The programs holdfast and hello are built.
func commandContender(name string, as role, command ...string) contender {
	return contender{name: name, role: as, command: command}
}

func commandContenders() []contender {
	return []contender{
		commandContender("holdfast version", ours, "holdfast", "version"),
		commandContender("holdfast run x -- true", ours, "holdfast", "run", "x", "--", "true"),
		commandContender("holdfast ls", ours, "holdfast", "ls"),
		commandContender("flock x true", peer, "flock", "x", "true"),
		commandContender("a Go program that prints a line", floor, "hello"),
		commandContender("sh -c true", floor, "sh", "-c", "true"),
	}
}

// fewestStarts is the minimum number of starts in a slice.
const fewestStarts = 5

// measureStart starts a program again and again for a slice.
func measureStart(ctx context.Context, s *testbed, c contender) (figures, error) {
	if _, err := s.program(ctx, c.command[0]); err != nil {
		return nil, err
	}
	back, err := s.cores.spread()
	if err != nil {
		return nil, err
	}
	defer back()
	var took []float64
	var cpu time.Duration
	for begin := time.Now(); len(took) < fewestStarts || time.Since(begin) < s.slice; {
		cmd, err := s.start(ctx, c)
		if err != nil {
			return nil, err
		}
		start := time.Now()
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("%s: %w", strings.Join(c.command, " "), err)
		}
		took = append(took, milliseconds(time.Since(start)))
		cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return figures{startP50: median(took), startMin: slices.Min(took), startCPU: milliseconds(cpu) / float64(len(took))}, nil
}

// measureList starts a program that lists leases. First it acquires them, each of a resource of its own, and checks that
// the program prints a line for each.
func measureList(leases int) measure {
	return func(ctx context.Context, s *testbed, c contender) (figures, error) {
		rdb := redis.NewClient(&redis.Options{Addr: s.server.Addr(), PoolSize: openers})
		defer rdb.Close()
		client, err := holdfast.New(goredis.New(rdb))
		if err != nil {
			return nil, err
		}
		defer client.Close()
		var next atomic.Int64
		err = inParallel(func(int) (err error) {
			for i := next.Add(1); i <= int64(leases) && err == nil; i = next.Add(1) {
				_, err = client.Mutex(fmt.Sprintf("stock:%d", i), holdfast.WithTTL(time.Hour)).Lock(ctx) // not renewed within the slice
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		cmd, err := s.start(ctx, c)
		if err != nil {
			return nil, err
		}
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		if lines := bytes.Count(out, []byte("\n")); lines != leases+1 {
			return nil, fmt.Errorf("%s: %d lines, want a header and %d", c.name, lines, leases)
		}
		return measureStart(ctx, s, c)
	}
}

// start returns a contender's command, not yet started.
func (s *testbed) start(ctx context.Context, c contender) (*exec.Cmd, error) {
	program, err := s.program(ctx, c.command[0])
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, c.command[1:]...)
	cmd.Dir, cmd.Env = s.programs, append(os.Environ(), "HOLDFAST_REDIS=redis://"+s.server.Addr())
	return cmd, nil
}

// program returns the path of a program. It builds holdfast and hello at their first use.
func (s *testbed) program(ctx context.Context, name string) (string, error) {
	if s.programs == "" {
		dir, err := os.MkdirTemp("", "holdfast-bench-programs-")
		if err != nil {
			return "", err
		}
		s.programs = dir
	}
	path := filepath.Join(s.programs, name)
	if name != "holdfast" && name != "hello" {
		return exec.LookPath(name)
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	root, err := workspace(ctx)
	if err != nil {
		return "", err
	}
	of := "./cmd/holdfast"
	if name == "hello" {
		of = filepath.Join(s.programs, "hello.go")
		if err := os.WriteFile(of, []byte(hello), 0o600); err != nil {
			return "", err
		}
	}
	return path, buildReleased(ctx, root, path, of)
}

const hello = `package main

import "os"

func main() { os.Stdout.WriteString("hello\n") }
`

// workspace returns the root of the repository.
func workspace(ctx context.Context) (string, error) {
	file, err := exec.CommandContext(ctx, "go", "env", "GOWORK").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOWORK: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(file))), nil
}

// buildReleased builds a program as a release does.
func buildReleased(ctx context.Context, root, path, of string) error {
	config, err := os.ReadFile(filepath.Join(root, ".goreleaser.yaml"))
	if err != nil {
		return err
	}
	var settings [3][]string
	for i, key := range []string{"env", "flags", "ldflags"} {
		m := regexp.MustCompile(`(?m)^    ` + key + `: \[(.*)\]$`).FindSubmatch(config)
		if m == nil {
			return fmt.Errorf(".goreleaser.yaml has no line %q", key)
		}
		settings[i] = strings.Split(string(m[1]), ", ")
	}
	args := append([]string{"build", "-buildvcs=false", "-o", path, "-ldflags", strings.Join(settings[2], " ")}, settings[1]...)
	cmd := exec.CommandContext(ctx, "go", append(args, of)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), settings[0]...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w\n%s", of, err, out)
	}
	return nil
}
