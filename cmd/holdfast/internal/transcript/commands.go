package transcript

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Commands are commands of transcripts by their names.
type Commands map[string]func(ts *testscript.TestScript, neg bool, args []string)

// waitTimeout is how long a transcript waits for an event before it fails.
const waitTimeout = 20 * time.Second

// commands are those of transcripts besides testscript's.
var commands = Commands{
	// code N CMD ARGS…: CMD ends with exit code N; stdout and stderr look at its output. What CMD must not run
	// is "echo never", also for within and start; see forbid. What holdfast prints begins with its name; see requirePrefix.
	"code": func(ts *testscript.TestScript, _ bool, args []string) {
		need(ts, len(args) >= 2, "code N CMD ARGS…")
		err := ts.Exec(args[1], args[2:]...)
		forbid(ts, args, ts.ReadFile("stdout"))
		requireCode(ts, args[0], err)
		requirePrefix(ts, args[1:], ts.ReadFile("stderr"))
	},
	// within D N CMD ARGS…: as code, and it takes less than D and what the machine stalled.
	"within": func(ts *testscript.TestScript, _ bool, args []string) {
		need(ts, len(args) >= 3, "within D N CMD ARGS…")
		limit, err := time.ParseDuration(args[0])
		ts.Check(err)
		start := time.Now()
		err = ts.Exec(args[2], args[3:]...)
		end := time.Now()
		forbid(ts, args, ts.ReadFile("stdout"))
		requireCode(ts, args[1], err)
		requirePrefix(ts, args[2:], ts.ReadFile("stderr"))
		if took, stalled := end.Sub(start), ts.Value(stallsKey{}).(*redistest.Stalls).Between(start, end); took > limit+stalled {
			ts.Fatalf("took %v, allowed are %v, stalled %v", took, limit, stalled)
		}
	},
	// start NAME CMD ARGS…: starts CMD; its output goes to NAME.out and NAME.err.
	"start": func(ts *testscript.TestScript, _ bool, args []string) {
		need(ts, len(args) >= 2, "start NAME CMD ARGS…")
		ts.Value(jobsKey{}).(*jobs).start(ts, args[0], args[1:])
	},
	// signal NAME SIG: sends a signal to what start started.
	"signal": func(ts *testscript.TestScript, _ bool, args []string) {
		need(ts, len(args) == 2, "signal NAME SIG")
		sig := unix.SignalNum("SIG" + args[1])
		need(ts, sig != 0, "a signal such as TERM")
		ts.Check(ts.Value(jobsKey{}).(*jobs).get(ts, args[0]).cmd.Process.Signal(sig))
	},
	// ends NAME N: waits for what start started; it ends with exit code N.
	"ends": func(ts *testscript.TestScript, _ bool, args []string) {
		need(ts, len(args) == 2, "ends NAME N")
		j := ts.Value(jobsKey{}).(*jobs).get(ts, args[0])
		select {
		case <-j.done:
			forbid(ts, j.cmd.Args, ts.ReadFile(args[0]+".out"))
			requireCode(ts, args[1], j.err)
			requirePrefix(ts, j.cmd.Args, ts.ReadFile(args[0]+".err"))
		case <-time.After(waitTimeout):
			ts.Fatalf("%s still runs after %v", args[0], waitTimeout)
		}
	},
	// running NAME: what start started has not ended.
	"running": func(ts *testscript.TestScript, _ bool, args []string) {
		need(ts, len(args) == 1, "running NAME")
		if !ts.Value(jobsKey{}).(*jobs).get(ts, args[0]).runs() {
			ts.Fatalf("%s has ended", args[0])
		}
	},
	// wait-line FILE REGEXP: waits until a line of the file matches.
	"wait-line": func(ts *testscript.TestScript, _ bool, args []string) {
		need(ts, len(args) == 2, "wait-line FILE REGEXP")
		re, err := regexp.Compile("(?m)" + args[1])
		ts.Check(err)
		await(ts, fmt.Sprintf("no line of %s matches %s", args[0], args[1]), func() bool {
			forbidEntry(ts, args[0], args[1])
			text, err := os.ReadFile(ts.MkAbs(args[0]))
			return err == nil && re.Match(text)
		})
	},
	// wait-run REGEXP CMD ARGS…: runs CMD again and again until its output matches.
	"wait-run": func(ts *testscript.TestScript, _ bool, args []string) {
		need(ts, len(args) >= 2, "wait-run REGEXP CMD ARGS…")
		re, err := regexp.Compile("(?m)" + args[0])
		ts.Check(err)
		await(ts, "no output matches "+args[0], func() bool {
			return ts.Exec(args[1], args[2:]...) == nil && re.MatchString(ts.ReadFile("stdout"))
		})
	},
	// page STATUS NAME PATH FILE: gets a page of the server whose address is the first word of NAME.out, into FILE.
	"page": func(ts *testscript.TestScript, _ bool, args []string) {
		need(ts, len(args) == 4, "page STATUS NAME PATH FILE")
		resp, err := http.Get(strings.Fields(ts.ReadFile(args[1] + ".out"))[0] + args[2])
		ts.Check(err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(args[3]), text, 0o600))
		if strconv.Itoa(resp.StatusCode) != args[0] {
			ts.Fatalf("%s, want %s\n%s", resp.Status, args[0], text)
		}
	},
	// pgone FILE: no member of the process group whose number the file holds is left.
	"pgone": func(ts *testscript.TestScript, neg bool, args []string) {
		need(ts, len(args) == 1, "pgone FILE")
		group, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[0])))
		ts.Check(err)
		gone := errors.Is(syscall.Kill(-group, 0), syscall.ESRCH)
		if gone == neg {
			ts.Fatalf("process group %d is gone: %v", group, gone)
		}
	},
	// redis WORDS…: sends a command to the script's server.
	"redis": func(ts *testscript.TestScript, _ bool, args []string) {
		words := make([]any, len(args))
		for i, a := range args {
			words[i] = a
		}
		ts.Check(server(ts).Client().Do(context.Background(), words...).Err())
	},
	// redis-keys KEYS…: the server has these keys and no other.
	"redis-keys": func(ts *testscript.TestScript, _ bool, args []string) {
		keys, err := server(ts).Client().Keys(context.Background(), "*").Result()
		ts.Check(err)
		slices.Sort(keys)
		if !slices.Equal(keys, args) {
			ts.Fatalf("keys %q, want %q", keys, args)
		}
	},
	"redis-kill":    func(ts *testscript.TestScript, _ bool, _ []string) { server(ts).Kill() },
	"redis-restart": func(ts *testscript.TestScript, _ bool, _ []string) { server(ts).Restart() },
	"redis-pause":   func(ts *testscript.TestScript, _ bool, _ []string) { server(ts).Pause() },
	"redis-resume":  func(ts *testscript.TestScript, _ bool, _ []string) { server(ts).Resume() },
	// node-… NUMBER: the same for a server of a topology.
	"node-kill":    func(ts *testscript.TestScript, _ bool, args []string) { node(ts, args).Kill() },
	"node-restart": func(ts *testscript.TestScript, _ bool, args []string) { node(ts, args).Restart() },
	"node-pause":   func(ts *testscript.TestScript, _ bool, args []string) { node(ts, args).Pause() },
	"node-resume":  func(ts *testscript.TestScript, _ bool, args []string) { node(ts, args).Resume() },
	// failover: waits until another server has taken over from server 0.
	"failover": func(ts *testscript.TestScript, _ bool, _ []string) { ts.Value(settingKey{}).(Setting).Failover() },
}

func server(ts *testscript.TestScript) *redistest.Server {
	return ts.Value(serverKey{}).(*redistest.Server)
}

func need(ts *testscript.TestScript, ok bool, usage string) {
	if !ok {
		ts.Fatalf("usage: %s", usage)
	}
}

// requireCode checks how a process ended; a signal counts as 128 and its number.
func requireCode(ts *testscript.TestScript, want string, err error) {
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
		if status := exit.Sys().(syscall.WaitStatus); status.Signaled() {
			got = 128 + int(status.Signal())
		}
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(got) != want {
		ts.Fatalf("exit code %d, want %s", got, want)
	}
}

// await polls until ok, or fails the script.
func await(ts *testscript.TestScript, trouble string, ok func() bool) {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for limit := time.Now().Add(waitTimeout); !ok(); <-ticker.C {
		if time.Now().After(limit) {
			ts.Fatalf("%s", trouble)
		}
	}
}

// node returns the server that a script's argument numbers.
func node(ts *testscript.TestScript, args []string) *redistest.Server {
	nodes := ts.Value(settingKey{}).(Setting).Nodes
	need(ts, len(args) == 1, "node-… NUMBER")
	i, err := strconv.Atoi(args[0])
	ts.Check(err)
	need(ts, i < len(nodes), "a NUMBER that is there")
	return nodes[i]
}
