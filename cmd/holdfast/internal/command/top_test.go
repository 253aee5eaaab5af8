//go:build linux

package command

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
)

// screen is what a terminal shows that draws the output of a console.
type screen struct {
	*console
	*vt.Emulator
	drawn int
}

// startScreen starts a console on a terminal of some size.
func startScreen(t *testing.T, width, height int) *screen {
	t.Helper()
	s := &screen{console: startConsole(t), Emulator: vt.NewEmulator(width, height)}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		_, _ = io.Copy(io.Discard, s.Emulator) // answers of the terminal, which nobody waits for
	}()
	t.Cleanup(func() {
		_ = s.InputPipe().(io.Closer).Close()
		<-answered
	})
	s.resize(width, height)
	s.line("export TERM=xterm-256color; before=$(stty -g)")
	s.expect("ready> ")
	return s
}

// resize changes the size of the terminal, as a user does.
func (s *screen) resize(width, height int) {
	s.Resize(width, height)
	if err := unix.IoctlSetWinsize(int(s.keys.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(height), Col: uint16(width)}); err != nil {
		s.t.Fatal(err)
	}
}

// shows waits until the screen shows all of some texts, and returns it.
func (s *screen) shows(texts ...string) string {
	s.t.Helper()
	return s.is("does not show "+strings.Join(texts, " and "), func(screen string) bool {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
}

// is waits until the screen is as it should be, and returns it.
func (s *screen) is(trouble string, ok func(screen string) bool) string {
	s.t.Helper()
	limit := time.After(waitTimeout)
	for {
		s.mu.Lock()
		more := s.screen[s.drawn:]
		s.drawn = len(s.screen)
		s.mu.Unlock()
		if _, err := s.Write(more); err != nil {
			s.t.Fatal(err)
		}
		screen := s.String()
		if ok(screen) {
			return screen
		}
		select {
		case <-s.changed:
		case <-limit:
			s.t.Fatalf("the screen %s, but\n%s", trouble, screen)
		}
	}
}

// restored requires the exit code of top, and the terminal as it was before.
func (s *screen) restored(code int) {
	s.t.Helper()
	s.is("does not show the prompt", func(screen string) bool {
		return !s.IsAltScreen() && strings.HasSuffix(strings.TrimSpace(screen), "\nready>")
	})
	s.press("echo 'code' $? $([ \"$before\" = \"$(stty -g)\" ] && echo same)\n")
	s.shows(fmt.Sprintf("code %d same", code))
	if s.IsAltScreen() || s.CursorHidden() {
		s.t.Errorf("alternate screen %v, cursor hidden %v", s.IsAltScreen(), s.CursorHidden())
	}
}

// locks is a client on the server of the console.
func (s *screen) locks(opts ...holdfast.Option) *holdfast.Client {
	s.t.Helper()
	c, err := holdfast.New(goredis.New(s.client), opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *screen) lock(c *holdfast.Client, name string, opts ...holdfast.LockOption) *holdfast.Lease {
	s.t.Helper()
	l, err := c.Mutex(name, opts...).Lock(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

// The list is sorted and filtered, a resource is opened, and a lease is broken after a reason and y, as by holdfast break.
func TestTopBreaks(t *testing.T) {
	s := startScreen(t, 120, 20)
	c := s.locks(holdfast.WithName("shop"))
	lease := s.lock(c, "stock:42", holdfast.WithReason("because of tests"), holdfast.WithTTL(3*time.Second)) // it may be told at its next renewal
	other := s.locks(holdfast.WithName("clerk"), holdfast.WithMeta(holdfast.Meta{Host: "node-17", PID: 4711}))
	s.lock(other, "stock:7")
	go func() { _, _ = other.Mutex("stock:42").Lock(t.Context()) }()

	s.press("holdfast --history 100 top --every 100ms\n")
	first := s.shows("resources 2, leases 2, waiters 1, by waiters", "because of tests", "clerk, pid 4711 on node-17")
	if strings.Index(first, "stock:42 ") > strings.Index(first, "stock:7 ") {
		t.Errorf("most waiters first, but\n%s", first)
	}
	s.press("s")
	s.shows("by held")
	s.press("ss")
	s.shows("by name")
	s.press("/NODE-17")
	s.is("has no filter", func(screen string) bool {
		return strings.Contains(screen, "stock:7 ") && !strings.Contains(screen, "stock:42 ")
	})
	s.press("\r\x1b")
	s.shows("stock:42 ")

	s.press("\r")
	s.shows("stock:42  mutex, capacity 1", "HOLDER ID", lease.HolderID(), "WAITER ID", "clerk, pid 4711")
	s.press("b")
	s.shows("reason of the break")
	s.press("a deploy")
	s.shows("a deploy_")
	s.press("\r")
	s.shows(`break the lease on "stock:42" (mutex) of shop, pid `, "? [y/N]")
	s.press("n")
	s.shows("nothing was broken")
	if err := lease.Err(); err != nil {
		t.Fatalf("no, but %v", err)
	}
	s.press("b\ry")
	s.shows("broken: " + lease.HolderID() + " can no longer renew")
	<-lease.Done()
	var lost *holdfast.LostError
	if err := lease.Err(); !errors.As(err, &lost) || lost.Cause != holdfast.LostBroken || !strings.Contains(err.Error(), "a deploy") {
		t.Errorf("the holder of the lease got %v", err)
	}
	_ = lease.Release(t.Context())
	s.is("shows no new holder", func(screen string) bool {
		return strings.Contains(screen, "Nobody waits.") && strings.Contains(screen, "clerk")
	})
	s.press("\x1b")
	s.shows("leases 2, waiters 0")
	s.press("q")
	s.restored(0)
	s.press("holdfast log\n")
	s.shows("broke      stock:42  break: a deploy")
}

// Texts of other processes are shown, not obeyed, in each view.
func TestTopEscapes(t *testing.T) {
	const evil = "evil\x1b[31m<b>\u202e\r\n\tx"
	s := startScreen(t, 160, 20)
	s.lock(s.locks(holdfast.WithName(evil), holdfast.WithMeta(holdfast.Meta{Host: evil, PID: 1})), evil, holdfast.WithReason("\x1b]0;title\a日本"))
	s.press("holdfast top --every 100ms\n")
	const shown = `evil\x1b[31m<b>\u202e\r\n\tx`
	s.shows(shown+"  mutex", shown+", pid 1 on "+shown)
	s.press("\r")
	s.shows(shown+"  mutex, capacity 1", shown+", pid 1 on "+shown)
	s.press("\x1b[C\x1b[C\x1b[C\x1b[C\x1b[C\x1b[C\x1b[C\x1b[C") // to the right
	s.shows(`\x1b]0;title\a日本`)
	s.press("b")
	s.shows("reason of the break")
	s.press("x\r")
	s.shows(`break the lease on "`+shown, "? [y/N]")
	s.press("n")
	s.shows("nothing was broken")
	s.press("\x1b")
	s.shows("by waiters")
	s.press("/<B>\r")
	s.shows(`filter "<B>"`, shown)
	s.press("q")
	s.restored(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, raw := range []string{"\x1b[31m", "\u202e", "title\a"} {
		if strings.Contains(string(s.console.screen), raw) {
			t.Errorf("%q reached the terminal", raw)
		}
	}
}

// A store that goes down and comes back: what was read last stays, with its time.
func TestTopOverAnOutage(t *testing.T) {
	s := startScreen(t, 100, 12)
	s.lock(s.locks(), "stock:42", holdfast.WithTTL(time.Minute))
	s.press("holdfast top --every 100ms\n")
	s.shows("stock:42 ", "leases 1")
	s.server.Kill()
	s.shows("stock:42 ", "NO ANSWER since ")
	s.server.Restart()
	s.shows(`no resource in use matches "*"`)
	s.press("q")
	s.restored(0)
}

// The screen follows its size, and many resources are scrolled.
func TestTopResizes(t *testing.T) {
	s := startScreen(t, 100, 12)
	c := s.locks()
	for i := range 40 {
		s.lock(c, fmt.Sprintf("r%02d", i))
	}
	s.press("holdfast top --sort name --every 100ms\n")
	if first := s.shows("RESOURCE", "r00 ", "r07 ", "Enter open"); strings.Contains(first, "r08 ") {
		t.Errorf("12 lines show\n%s", first)
	}
	s.press("G")
	s.shows("RESOURCE", "r39 ", "r32 ")
	s.resize(60, 30)
	if large := s.shows("RESOURCE", "r39 ", "r14 ", "…"); strings.Contains(large, "r13 ") {
		t.Errorf("30 lines show\n%s", large)
	}
	s.resize(20, 5)
	s.shows("r39 ")
	s.resize(100, 60)
	s.shows("r00 ", "r39 ", "Enter open")
	s.press("q")
	s.restored(0)
}

// A signal and ^C restore the terminal; ^Z does so until fg.
func TestTopRestoresTheTerminal(t *testing.T) {
	s := startScreen(t, 100, 12)
	s.press("holdfast top\n")
	s.shows("no resource in use")
	s.press("\x1a")
	s.shows("Stopped")
	s.restored(148)
	s.press("fg\n")
	s.shows("no resource in use", "Enter open")
	s.press("\x03")
	s.restored(130)

	s.press("sh -c 'echo pid=$$=; exec holdfast top'\n")
	s.shows("no resource in use")
	s.mu.Lock()
	all := string(s.console.screen)
	s.mu.Unlock()
	pid, err := strconv.Atoi(strings.Split(all[strings.LastIndex(all, "pid=")+4:], "=")[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.shows("Terminated")
	s.restored(143)

	s.press("TERM=dumb holdfast top\n")
	s.shows(`no resource in use matches "*" (prefix "holdfast")`)
	s.restored(0)
}
