//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestTerminal runs a command that reads the terminal: its group must be the
// foreground job, ^C is for it alone, and ^Z does not suspend it.
func TestTerminal(t *testing.T) {
	master, slave := openTerminal(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const script = `trap 'echo INT' INT; echo ready; while :; do
		read line || continue # the trap ends a read
		case $line in end) exit 4;; *) echo "got $line";; esac; done`
	cmd := &exec.Cmd{
		Path: self, Args: []string{"holdfast", "run", "r", "--", "sh", "-c", script},
		Env:   append(os.Environ(), "HOLDFAST_REDIS="+redistest.Start(t).URL(), "GORACE=atexit_sleep_ms=0"),
		Stdin: slave, Stdout: slave, Stderr: slave,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0},
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	slave.Close()
	screen := bufio.NewReader(master)
	expect(t, screen, "ready")
	press(t, master, "one\n")
	expect(t, screen, "got one")
	press(t, master, "\x03") // ^C
	expect(t, screen, "INT")
	press(t, master, "\x1a") // ^Z
	expect(t, screen, "cannot be suspended while it holds a lease")
	press(t, master, "two\n")
	expect(t, screen, "got two")
	press(t, master, "end\n")
	err = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 4 {
		t.Errorf("exit code %d, %v", code, err)
	}
}

// expect reads the screen up to a line that contains text.
func expect(t *testing.T, screen *bufio.Reader, text string) {
	t.Helper()
	var seen []string
	for {
		line, err := screen.ReadString('\n')
		if strings.Contains(line, text) {
			return
		}
		if err != nil {
			t.Fatalf("no line with %q, but %q, %v", text, seen, err)
		}
		seen = append(seen, line)
	}
}

func press(t *testing.T, master io.Writer, keys string) {
	t.Helper()
	if _, err := io.WriteString(master, keys); err != nil {
		t.Fatal(err)
	}
}

// openTerminal makes a pseudo terminal whose reads end after a while.
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
	if err := master.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}
