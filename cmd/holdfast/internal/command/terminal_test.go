//go:build linux

package command

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// console is an interactive bash on a pseudo terminal, with a Redis of its own.
type console struct {
	t      *testing.T
	keys   *os.File
	server *redistest.Server
	client *redis.Client

	mu      sync.Mutex
	screen  []byte
	seen    int // output that say and expect have consumed
	changed chan struct{}
}

func startConsole(t *testing.T) *console {
	t.Helper()
	t.Parallel()
	master, slave := openTerminal(t)
	path, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	server := redistest.Start(t)
	cmd := &exec.Cmd{
		Path: path, Args: []string{"bash", "--norc", "--noprofile", "--noediting", "-i"}, Dir: t.TempDir(),
		Env:   append(os.Environ(), "HOLDFAST_REDIS="+server.URL(), "GORACE=atexit_sleep_ms=0", "PS1=ready> ", "TERM=vt100", "LESS=", "HISTFILE="),
		Stdin: slave, Stdout: slave, Stderr: slave,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0},
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	b := &console{t: t, keys: master, server: server, client: server.Client(), changed: make(chan struct{}, 1)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b.read()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // the kernel sends SIGHUP, and holdfast ends the command
		_ = cmd.Wait()
		master.Close()
		<-read
	})
	b.expect("ready> ")
	return b
}

func (b *console) read() {
	buf := make([]byte, 4096)
	for {
		n, err := b.keys.Read(buf)
		if err != nil {
			return
		}
		b.mu.Lock()
		b.screen = append(b.screen, buf[:n]...)
		b.mu.Unlock()
		select {
		case b.changed <- struct{}{}:
		default:
		}
	}
}

// press types keys.
func (b *console) press(keys string) {
	b.t.Helper()
	if _, err := b.keys.WriteString(keys); err != nil {
		b.t.Fatal(err)
	}
}

// line types a command line and passes over its echo.
func (b *console) line(text string) {
	b.t.Helper()
	b.press(text + "\n")
	b.expect(text + "\r\n")
}

// expect waits until the screen has shown text, after what was expected before,
// and returns what stands between the two.
func (b *console) expect(text string) (before string) {
	b.t.Helper()
	limit := time.After(waitTimeout)
	for {
		b.mu.Lock()
		rest := string(b.screen[b.seen:])
		before, _, ok := strings.Cut(rest, text)
		if ok {
			b.seen += len(before) + len(text)
		}
		b.mu.Unlock()
		if ok {
			return before
		}
		select {
		case <-b.changed:
		case <-limit:
			b.t.Fatalf("the terminal does not show %q, but %q", text, rest)
		}
	}
}

// ended waits for the prompt and requires the exit code of the line before.
func (b *console) ended(code int) {
	b.t.Helper()
	b.expect("ready> ")
	b.line("echo code $?")
	b.expect(fmt.Sprintf("code %d\r\n", code))
	b.expect("ready> ")
}

// until polls until ok.
func (b *console) until(trouble string, ok func() bool) {
	b.t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for limit := time.Now().Add(waitTimeout); !ok(); <-ticker.C {
		if time.Now().After(limit) {
			b.t.Fatal(trouble)
		}
	}
}

// The file of --store-file is read once, also on a terminal, where a second process does the work.
func TestTerminalStoreFileIsAPipe(t *testing.T) {
	b := startConsole(t)
	b.press("holdfast --store-file <(echo $HOLDFAST_REDIS; unset HOLDFAST_REDIS) run r -- echo 'do''ne'\n")
	b.expect("done\r\n")
	b.ended(0)
}

// TestTerminalPagers runs a pager in each place of a pipeline: it reads its keys
// from the terminal.
func TestTerminalPagers(t *testing.T) {
	for name, line := range map[string]string{
		"alone":            "seq 300 >f; holdfast run r -- less f",
		"end of a pipe":    "seq 300 | holdfast run r -- less",
		"behind the lease": "holdfast run r -- seq 300 | less",
	} {
		t.Run(name, func(t *testing.T) {
			b := startConsole(t)
			b.line(line)
			b.expect("10\r\n")
			b.press("G")
			b.expect("300\r\n")
			b.press("q")
			b.ended(0)
		})
	}
}

// TestTerminalPrompts runs commands that prompt on the terminal, whatever
// their standard files are.
func TestTerminalPrompts(t *testing.T) {
	const prompt = `sh -c 'printf "name? " >/dev/tty; read p </dev/tty; echo "got $p" >/dev/tty; exit 4'`
	for name, line := range map[string]string{
		"alone":       "holdfast run r -- " + prompt,
		"no standard": "holdfast run r -- " + prompt + " </dev/null >/dev/null 2>&1",
		"in a pipe":   "set -o pipefail; seq 3 | holdfast run r -- " + prompt + " | cat",
		"nested":      "holdfast run outer -- holdfast run inner -- " + prompt,
		"once":        "holdfast once id -- " + prompt,
		"elect":       "holdfast elect e v -- " + prompt,
	} {
		t.Run(name, func(t *testing.T) {
			b := startConsole(t)
			b.line(line)
			b.expect("name? ")
			b.press("ann\n")
			b.expect("got ann\r\n")
			b.ended(4)
		})
	}
}

// TestTerminalPromptOfGit is of a program that turns the echo of the terminal off.
func TestTerminalPromptOfGit(t *testing.T) {
	b := startConsole(t)
	b.line(`printf 'protocol=https\nhost=h\n\n' | holdfast run r -- env -u GIT_ASKPASS -u SSH_ASKPASS git -c core.askPass= -c credential.helper= credential fill`)
	b.expect("Username for 'https://h': ")
	b.press("ann\n")
	b.expect("Password for 'https://ann@h': ")
	b.press("secret\n")
	b.expect("password=secret\r\n")
	b.ended(0)
}

// TestTerminalBreak asks before it breaks: n and ^C break nothing.
func TestTerminalBreak(t *testing.T) {
	b := startConsole(t)
	b.line("holdfast acquire --ttl 60s r >ticket; holdfast break --all r")
	b.expect("? [y/N] ")
	b.press("n\n")
	b.expect("nothing was broken")
	b.ended(1)
	b.line("holdfast break --all r")
	b.expect("? [y/N] ")
	b.press("\x03")
	b.ended(130)
	if n := len(b.snapshot().Holders); n != 1 {
		t.Errorf("%d holders after n and ^C", n)
	}
	b.line("holdfast break --force --all r")
	b.expect("? [y/N] ")
	b.press("y\n")
	b.expect("broken: ")
	b.ended(0)
	if n := len(b.snapshot().Holders); n != 0 {
		t.Errorf("%d holders after y", n)
	}
}

// TestTerminalSuspend stops the job at ^Z and continues it with fg and bg. The
// lease is renewed meanwhile.
func TestTerminalSuspend(t *testing.T) {
	b := startConsole(t)
	b.line(`holdfast run --ttl 2s r -- sh -c 'echo began; read p; echo "got $p"; until test -e read; do sleep 0.01; done; read p; echo "and $p"'`)
	b.expect("began\r\n")
	b.press("\x1a")
	b.expect("Stopped")
	suspended := time.Now()
	b.expect("ready> ")
	// More than one TTL later the lease is still there: without renewals it would
	// have ended, and the command with it.
	b.until("the lease is not renewed", func() bool {
		snap := b.snapshot()
		if len(snap.Holders) != 1 {
			t.Fatalf("suspended, and the holders are %v", snap.Holders)
		}
		return time.Since(suspended)+snap.Holders[0].TTL > 4*time.Second
	})
	b.line("fg")
	b.press("one\n")
	b.expect("got one\r\n")
	b.press("\x1a")
	b.expect("Stopped")
	b.expect("ready> ")
	// In the background it is stopped again when it reads. It reads only once the job runs:
	// bg continues the processes of a job one after the other, and a process that reads
	// before the last of them is continued stops only those before it, as under flock.
	b.line("bg")
	b.expect("ready> ")
	b.until("the job does not run", func() bool {
		b.line("jobs; echo end $((1+1))")
		return strings.Contains(b.expect("end 2\r\n"), "Running")
	})
	b.line("touch read")
	b.expect("ready> ")
	b.until("no job is stopped by its input", func() bool {
		b.line("jobs -l; echo end $((1+1))")
		return strings.Contains(b.expect("end 2\r\n"), "tty input")
	})
	b.line("fg")
	b.press("two\n")
	b.expect("and two\r\n")
	b.ended(0)
}

// TestTerminalInterrupt presses ^C: the command gets it once, and a loop of the
// shell ends.
func TestTerminalInterrupt(t *testing.T) {
	t.Run("once", func(t *testing.T) {
		b := startConsole(t)
		b.line(`holdfast run r -- bash -c 'trap "((n++))" INT; echo began; read p; read p; echo "$n times"'`)
		b.expect("began\r\n")
		b.press("\x03")
		b.expect("^C")
		b.press("a\nb\n")
		b.expect("1 times\r\n")
		b.ended(0)
	})
	t.Run("loop", func(t *testing.T) {
		b := startConsole(t)
		b.line(`for i in 1 2 3; do holdfast run r -- sh -c 'echo began $0; exec sleep 60' $i; done`)
		b.expect("began 1\r\n")
		b.press("\x03")
		b.ended(130)
		if n := len(b.snapshot().Holders); n != 0 {
			t.Errorf("%d holders", n)
		}
	})
	t.Run("loop of a script", func(t *testing.T) {
		b := startConsole(t)
		b.line(`bash -c 'for i in 1 2 3; do holdfast run r -- sh -c "echo began $i; exec sleep 60"; done; echo never'`)
		b.expect("began 1\r\n")
		b.press("\x03")
		b.ended(130)
	})
	t.Run("wait", func(t *testing.T) {
		b := startConsole(t)
		b.line(`holdfast run r -- sleep 60 & sleep 0; until holdfast show r | grep -q sleep; do :; done; echo held`)
		b.expect("held\r\n")
		b.line(`while :; do holdfast run r -- echo never; done`)
		b.expect("waiting")
		b.press("\x03")
		b.ended(130)
	})
}

// TestTerminalStatus waits on a terminal: one line is drawn again and again, and is gone when
// the command starts.
func TestTerminalStatus(t *testing.T) {
	b := startConsole(t)
	b.line(`holdfast run r -- sh -c 'until [ -e go ]; do sleep 0.01; done' & sleep 0; until holdfast show r | grep -q sh; do :; done; echo held`)
	b.expect("held\r\n")
	b.line("holdfast run r -- echo began")
	b.expect("waiting: ")
	const status, clear = ", position 1 of 1: \"r\" is held by holdfast ", "\r\x1b[K"
	b.expect(clear + "\x1b[?7lholdfast: waiting for ")
	b.expect(status)
	b.expect(clear)
	b.expect(status)
	b.press("\x1a")
	b.expect("Stopped")
	b.expect("ready> ")
	b.line("touch go; wait %1; fg")
	if drawn := b.expect("began\r\n"); strings.Contains(drawn, "held by") {
		t.Errorf("the status of a suspended job was drawn: %q", drawn)
	}
	b.ended(0)

	b.line("holdfast run r -- true; holdfast acquire r >ticket; holdfast wait r")
	b.expect(clear + "\x1b[?7lholdfast: waiting for ")
	b.expect("s: \"r\" is held by holdfast ")
	b.expect(clear)
	b.press("\x03")
	b.expect("ready> ")
	b.line("holdfast run r -- echo never")
	b.expect(status)
	b.press("\x03")
	b.expect(clear)
	b.ended(130)
}

// TestTerminalLost takes the store away: all that the command started is gone in
// time, and the other programs of the job are not touched.
func TestTerminalLost(t *testing.T) {
	b := startConsole(t)
	b.line(`holdfast run --ttl 600ms r -- bash -c 'trap "" TERM; (trap "" TERM; echo $BASHPID >a; sleep 60; sleep 60) & echo $$ >b; echo began; wait; sleep 60' | (cat; echo the rest)`)
	b.expect("began\r\n")
	b.client.ClientPause(context.Background(), time.Minute)
	b.expect("the rest\r\n") // cat ended with the last writer
	b.expect("ready> ")
	b.line("echo ${PIPESTATUS[@]}; kill -0 $(cat a); kill -0 $(cat b)")
	b.expect("79 0\r\n")
	b.expect("No such process")
	b.expect("No such process")
}

// TestTerminalKilled kills the process that the shell started: the command is
// ended, and the lease released.
func TestTerminalKilled(t *testing.T) {
	b := startConsole(t)
	b.line(`holdfast run r -- sh -c 'echo $$ >a; echo began; exec sleep 60' &`)
	b.expect("began\r\n")
	b.line("kill -KILL $!; wait; holdfast run -w 10s r -- sh -c 'kill -0 $(cat a)'")
	b.expect("No such process")
}

func (b *console) snapshot() holdfast.Snapshot {
	b.t.Helper()
	c, err := holdfast.New(goredis.New(b.client))
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	snap, err := c.Snapshot(context.Background(), "r")
	if err != nil {
		b.t.Fatal(err)
	}
	return snap
}

// openTerminal makes a pseudo terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { master.Close() })
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}
