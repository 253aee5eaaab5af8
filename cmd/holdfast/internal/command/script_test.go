package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/stores"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) {
	if strings.HasSuffix(os.Args[0], ".test") {
		leaveTerminal()
		if signal.Ignored(syscall.SIGHUP) { // as under nohup; what is caught here, commands find as it is by default
			signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
		}
	}
	testscript.Main(m, map[string]func(){"holdfast": program, guard.Name: program, guard.ClientName: program, demo.NodeName: program, "guard-by-hand": guardByHand})
}

// allDrivers is set for scripts that run on stores other than Redis.
const allDrivers = "TEST_ALL_DRIVERS"

// program is the command: holdfast-stores if allDrivers is set.
func program() {
	var drivers []store.Driver
	if os.Getenv(allDrivers) != "" {
		drivers = stores.Drivers()
	}
	os.Exit(Main(os.Args, drivers...))
}

// leaveTerminal detaches the tests from the terminal, so that they run the same way without one.
func leaveTerminal() {
	if tty, err := os.Open("/dev/tty"); err == nil {
		_ = unix.IoctlSetInt(int(tty.Fd()), unix.TIOCNOTTY, 0)
		tty.Close()
	}
}

// guardByHand runs the guard as a user may start it by hand.
func guardByHand() { os.Exit(guard.Main([]string{guard.Name})) }

// waitTimeout is how long a script waits for an event before it fails.
const waitTimeout = 20 * time.Second

// TestScripts runs testdata/*.txtar, each against a redis-server of its own.
// Besides testscript's commands they have those of scriptCommands.
func TestScripts(t *testing.T) {
	stalls := redistest.WatchStalls(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Cmds:                scriptCommands,
		Setup: func(e *testscript.Env) error {
			s, err := redistest.Launch()
			if err != nil {
				return err
			}
			e.Defer(s.Stop)
			e.Values[serverKey{}] = s
			jobs := &jobs{running: map[string]*job{}}
			e.Defer(jobs.end)
			e.Values[jobsKey{}] = jobs
			e.Values[stallsKey{}] = stalls
			e.Setenv("HOLDFAST_REDIS", s.URL())
			e.Setenv("ADDR", s.Addr())
			// The race detector would delay the end of every process by a second.
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			return nil
		},
	})
}

type (
	serverKey struct{}
	jobsKey   struct{}
	stallsKey struct{}
)

var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	// code N CMD ARGS…: CMD ends with exit code N; stdout and stderr look at its output.
	"code": func(ts *testscript.TestScript, _ bool, args []string) {
		need(ts, len(args) >= 2, "code N CMD ARGS…")
		requireCode(ts, args[0], ts.Exec(args[1], args[2:]...))
	},
	// within D N CMD ARGS…: as code, and it takes less than D and what the machine stalled.
	"within": func(ts *testscript.TestScript, _ bool, args []string) {
		need(ts, len(args) >= 3, "within D N CMD ARGS…")
		limit, err := time.ParseDuration(args[0])
		ts.Check(err)
		start := time.Now()
		requireCode(ts, args[1], ts.Exec(args[2], args[3:]...))
		end := time.Now()
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
		var sig signalFlag
		ts.Check(sig.UnmarshalText([]byte(args[1])))
		ts.Check(ts.Value(jobsKey{}).(*jobs).get(ts, args[0]).cmd.Process.Signal(syscall.Signal(sig)))
	},
	// ends NAME N: waits for what start started; it ends with exit code N.
	"ends": func(ts *testscript.TestScript, _ bool, args []string) {
		need(ts, len(args) == 2, "ends NAME N")
		j := ts.Value(jobsKey{}).(*jobs).get(ts, args[0])
		select {
		case <-j.done:
			requireCode(ts, args[1], j.err)
		case <-time.After(waitTimeout):
			ts.Fatalf("%s still runs after %v", args[0], waitTimeout)
		}
	},
	// running NAME: what start started has not ended.
	"running": func(ts *testscript.TestScript, _ bool, args []string) {
		need(ts, len(args) == 1, "running NAME")
		select {
		case <-ts.Value(jobsKey{}).(*jobs).get(ts, args[0]).done:
			ts.Fatalf("%s has ended", args[0])
		default:
		}
	},
	// wait-line FILE REGEXP: waits until a line of the file matches.
	"wait-line": func(ts *testscript.TestScript, _ bool, args []string) {
		need(ts, len(args) == 2, "wait-line FILE REGEXP")
		re, err := regexp.Compile("(?m)" + args[1])
		ts.Check(err)
		await(ts, fmt.Sprintf("no line of %s matches %s", args[0], args[1]), func() bool {
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
	// redis-tls: starts a server for TLS at $TLSADDR, with ca.crt, client.crt and client.key.
	"redis-tls": func(ts *testscript.TestScript, _ bool, _ []string) { startTLS(ts) },
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
	"failover": func(ts *testscript.TestScript, _ bool, _ []string) { ts.Value(topologyKey{}).(topology).failover() },
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
		got = codeOf(exit.Sys().(syscall.WaitStatus))
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

// jobs are the processes that a script started in the background.
type jobs struct{ running map[string]*job }

type job struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error
}

func (j *jobs) start(ts *testscript.TestScript, name string, args []string) {
	var env []string
	for _, key := range []string{"PATH", "HOLDFAST_REDIS", "HOLDFAST_STORE", allDrivers, "GORACE", "WORK", "HOME", "TMPDIR"} {
		if value := ts.Getenv(key); value != "" {
			env = append(env, key+"="+value)
		}
	}
	path, err := exec.LookPath(args[0])
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if p, e := exec.LookPath(filepath.Join(dir, args[0])); e == nil {
			path, err = p, nil
			break
		}
	}
	ts.Check(err)
	out, err := os.Create(ts.MkAbs(name + ".out"))
	ts.Check(err)
	defer out.Close()
	errs, err := os.Create(ts.MkAbs(name + ".err"))
	ts.Check(err)
	defer errs.Close()
	p := &job{done: make(chan struct{}), cmd: &exec.Cmd{
		Path: path, Args: args, Env: env, Dir: ts.MkAbs("."), Stdout: out, Stderr: errs,
	}}
	ts.Check(p.cmd.Start())
	j.running[name] = p
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
	}()
}

func (j *jobs) get(ts *testscript.TestScript, name string) *job {
	p := j.running[name]
	if p == nil {
		ts.Fatalf("nothing was started as %s", name)
	}
	return p
}

// end ends what a script left running; guards then end the commands.
func (j *jobs) end() {
	for _, p := range j.running {
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}
