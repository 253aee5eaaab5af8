package command

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// labProgram is the lab's program, which is not linked: it holds planted bugs, other
// libraries and package testing.
const (
	labProgram = "holdfast-lab"
	labInstall = "go install github.com/holdfast-go/holdfast/lab/cmd/holdfast-lab@latest"
)

// tortureCmd is `holdfast torture`. It replaces this process by the lab's program.
type tortureCmd struct {
	Args []string `arg:"" optional:"" help:"The arguments of holdfast-lab; --help lists them."`
}

// Help is the long text of --help if holdfast-lab is not installed. Otherwise holdfast-lab prints its own text.
func (*tortureCmd) Help() string {
	return `Runs ` + labProgram + `, a separate program, with ARGS. It kills, pauses and cuts off servers and processes, shows which
other locks let two holders in, and checks Holdfast for the same. It starts the servers; with --store it uses that
Redis. Install it beside holdfast or in PATH:

	` + labInstall + `

If it is installed, "holdfast torture --help" prints its arguments.`
}

// Run runs holdfast-lab with the same arguments.
func (c *tortureCmd) Run(e *env, k *kong.Context) error {
	path, missing := findProgram(labProgram)
	if missing != nil && slices.ContainsFunc(c.Args, asksHelp) {
		return k.PrintUsage(false)
	}
	if d := (store.Opener{}).Unlinked(e.url); e.urlGiven && d != nil {
		return fail(exitConfig, "torture plays on the Redis of --store, and cannot play on your %s; on other stores it plays on servers "+
			"that it starts: see holdfast torture -help", d.Name)
	}
	if missing != nil {
		return fail(exitNotFound, "torture runs %s, which is neither beside this program nor in PATH; install it: %s", labProgram, labInstall)
	}
	args := []string{labProgram}
	switch {
	case e.urlGiven && e.storeFile != nil: // it may have a password, which the list of processes would show
		fd, err := pipeWith([]byte(e.url))
		if err != nil {
			return fail(exitFailed, "hand on --store-file: %v", err)
		}
		args = append(args, "-redis-file", "/dev/fd/"+strconv.Itoa(fd))
	case e.urlGiven:
		args = append(args, "-redis", e.url)
	}
	args = append(args, c.Args...)
	if runtime.GOOS != "windows" {
		return fail(exitNotExec, "run %s: %v", path, syscall.Exec(path, args, os.Environ()))
	}
	cmd := &exec.Cmd{Path: path, Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	var ended *exec.ExitError
	if err := cmd.Run(); errors.As(err, &ended) {
		return fail(ended.ExitCode(), "")
	} else if err != nil {
		return fail(exitNotExec, "run %s: %v", path, err)
	}
	return nil
}

// asksHelp reports whether an argument of holdfast-lab, which has Go's flags, asks for help.
func asksHelp(arg string) bool { return slices.Contains([]string{"-h", "--h", "-help", "--help"}, arg) }

// findProgram looks for a program beside this one, then in PATH.
func findProgram(name string) (string, error) {
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), name)); err == nil {
			return path, nil
		}
	}
	return exec.LookPath(name)
}
