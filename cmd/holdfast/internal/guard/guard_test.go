package guard

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == Name {
		os.Exit(Main(os.Args))
	}
	// The race detector would delay the end of every guard by a second.
	os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// shell is a shell script under a guard.
type shell struct {
	t     *testing.T
	guard *Guard
	pid   int
	heard []EventKind
}

// launch starts a guard and its command.
func launch(c Command) (*Guard, error) {
	g, err := New()
	if err == nil {
		g.Run(c)
	}
	return g, err
}

// run starts a script and waits until it writes ready to the pipe $READY.
func run(t *testing.T, script string, change func(*Command)) *shell {
	t.Helper()
	pipe := filepath.Join(t.TempDir(), "ready")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	c := Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: append(os.Environ(), "READY="+pipe),
		TTL: 3 * time.Second, Deadline: now().add(3 * time.Second), KillAfter: 10 * time.Second, OnLost: KillOnLost,
	}
	if change != nil {
		change(&c)
	}
	g, err := launch(c)
	if err != nil {
		t.Fatal(err)
	}
	s := &shell{t: t, guard: g}
	s.pid = s.until(Started).PID
	if line, err := os.ReadFile(pipe); err != nil || string(line) != "ready\n" {
		t.Fatalf("script said %q, %v", line, err)
	}
	return s
}

// until reads events up to one of the kind.
func (s *shell) until(kind EventKind) Event {
	s.t.Helper()
	for e := range s.guard.Events() {
		s.heard = append(s.heard, e.Kind)
		if e.Kind == kind {
			return e
		}
	}
	s.t.Fatalf("no %v; heard %v", kind, s.heard)
	return Event{}
}

// requireGone checks that no member of the group is left.
func (s *shell) requireGone() {
	s.t.Helper()
	if !group(s.pid).empty() {
		s.t.Errorf("group %d still has members", s.pid)
	}
}

func TestOwnExitCode(t *testing.T) {
	s := run(t, "echo ready >$READY; exit 7", nil)
	if e := s.until(Exited); e.Status.ExitStatus() != 7 {
		t.Errorf("status %v", e.Status)
	}
	s.until(Gone)
	s.requireGone()
	if slices.Contains(s.heard, Terming) {
		t.Errorf("heard %v", s.heard)
	}
}

func TestArgumentsAndEnvironmentMayBeAnyBytes(t *testing.T) {
	s := run(t, `echo ready >$READY; [ "$BYTES $1" = "$(printf '\377\376 \200<>')" ]`, func(c *Command) {
		c.Args = append(c.Args, "sh", "\x80<>")
		c.Env = append(c.Env, "BYTES=\xff\xfe")
	})
	if e := s.until(Exited); e.Status.ExitStatus() != 0 {
		t.Errorf("status %v", e.Status)
	}
	s.until(Gone)
}

// Close ends and reaps a guard without a command.
func TestClose(t *testing.T) {
	g, err := New()
	if err != nil {
		t.Fatal(err)
	}
	g.Close()
	if err := syscall.Kill(g.process, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("signal to the guard: %v, want that there is no such process", err)
	}
}

func TestCannotStart(t *testing.T) {
	g, err := launch(Command{Path: "/nonexistent", Args: []string{"x"}, TTL: time.Second,
		Deadline: now().add(time.Second), OnLost: KillOnLost})
	if err != nil {
		t.Fatal(err)
	}
	e := <-g.Events()
	if e.Kind != Failed || e.Errno != syscall.ENOENT {
		t.Errorf("event %+v", e)
	}
	if _, more := <-g.Events(); more {
		t.Error("more events after Failed")
	}
}

func TestNothingStartsWhenTheLeaseIsOver(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "ran")
	g, err := launch(Command{Path: "/bin/sh", Args: []string{"sh", "-c", "touch " + mark}, TTL: time.Second,
		Deadline: now(), OnLost: KillOnLost})
	if err != nil {
		t.Fatal(err)
	}
	if e := <-g.Events(); e.Kind != Failed || e.Errno != syscall.ETIMEDOUT {
		t.Errorf("event %+v", e)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the command ran")
	}
}

func TestGroupIsGoneBeforeTheDeadline(t *testing.T) {
	for name, script := range map[string]string{
		"ends on TERM":  "echo ready >$READY; sleep 60",
		"ignores TERM":  "trap '' TERM; echo ready >$READY; sleep 60; sleep 60",
		"grandchildren": "(trap '' TERM; sleep 60; sleep 60) & (sleep 60 &) ; trap '' TERM; echo ready >$READY; wait",
		"stopped":       "echo ready >$READY; kill -STOP $$; sleep 60",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := run(t, script, func(c *Command) {
				c.TTL = time.Second
				c.Deadline = now().add(c.TTL)
			})
			if e := s.until(Terming); e.Cause != CauseDeadline {
				t.Errorf("cause %q", e.Cause)
			}
			if e := s.until(Gone); e.Left <= 0 {
				t.Errorf("gone %v after the deadline", -e.Left)
			}
			s.requireGone()
			ignored := strings.Contains(script, "trap")
			if slices.Contains(s.heard, Killing) != ignored {
				t.Errorf("KILL sent: %v; heard %v", !ignored, s.heard)
			}
		})
	}
}

func TestRenewalsKeepItRunning(t *testing.T) {
	s := run(t, "echo ready >$READY; exec sleep 60", func(c *Command) {
		c.TTL = 500 * time.Millisecond
		c.Deadline = now().add(c.TTL)
	})
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for range 30 { // three TTLs
		<-ticker.C
		s.guard.Extend(now().add(500 * time.Millisecond))
	}
	s.guard.Signal(syscall.SIGUSR1)
	if e := s.until(Exited); e.Status.Signal() != syscall.SIGUSR1 {
		t.Errorf("status %v; heard %v", e.Status, s.heard)
	}
	s.until(Gone)
}

// A deadline that is before the present one, as of a renewal that was overtaken, changes nothing.
func TestAnOlderDeadlineChangesNothing(t *testing.T) {
	s := run(t, "echo ready >$READY; exec sleep 60", nil)
	s.guard.Extend(now().add(time.Minute))
	s.guard.Extend(now())
	s.guard.Signal(syscall.SIGUSR1)
	if e := s.until(Exited); e.Status.Signal() != syscall.SIGUSR1 {
		t.Errorf("status %v", e.Status)
	}
	s.until(Gone)
	if slices.Contains(s.heard, Terming) {
		t.Errorf("heard %v", s.heard)
	}
}

func TestStopSendsTheSignalThenKill(t *testing.T) {
	s := run(t, "trap '' INT; echo ready >$READY; while :; do sleep 1; done", func(c *Command) {
		c.KillAfter = 50 * time.Millisecond
	})
	s.guard.Stop(CauseTimeout, syscall.SIGINT)
	if e := s.until(Killing); e.Cause != CauseTimeout {
		t.Errorf("cause %q", e.Cause)
	}
	s.until(Gone)
	s.requireGone()
}

func TestTheLeftBehindKeepTheGroup(t *testing.T) {
	// The background process of the script runs until the test ends it.
	s := run(t, "mkfifo $READY.end; (read x <$READY.end) & echo ready >$READY", nil)
	s.until(Exited)
	if group(s.pid).empty() {
		t.Error("nothing was left behind")
	}
	s.guard.Signal(syscall.SIGHUP)
	s.until(Gone)
	s.requireGone()
}

func TestLossIsOnlyWarnedOfIfAsked(t *testing.T) {
	s := run(t, "echo ready >$READY; exec sleep 60", func(c *Command) {
		c.OnLost = WarnOnLost
		c.TTL = 100 * time.Millisecond
		c.Deadline = now().add(c.TTL)
	})
	<-time.After(300 * time.Millisecond) // nothing must happen in this time
	s.guard.Signal(syscall.SIGTERM)
	s.until(Gone)
	if slices.Contains(s.heard, Terming) {
		t.Errorf("heard %v", s.heard)
	}
}

func TestWithoutItsGuardTheGroupIsKilled(t *testing.T) {
	s := run(t, "trap '' TERM; sleep 60 & echo ready >$READY; sleep 60; sleep 60", nil)
	if err := syscall.Kill(s.guard.process, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for e := range s.guard.Events() {
		if e.Kind == Gone {
			t.Error("a dead guard said gone")
		}
	}
	s.requireGone()
}

// A renewal that was sent before TERM is due puts it off, also if the guard did not run meanwhile.
func TestARenewalThatWaitsInTheSocket(t *testing.T) {
	g, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(g.process, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	g.Run(Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", "exit 7"}, Env: os.Environ(),
		TTL: time.Minute, Deadline: now().add(10 * time.Second), KillAfter: time.Minute, OnLost: KillOnLost,
	}) // TERM is due 20 s before the deadline
	g.Extend(now().add(time.Minute))
	if err := syscall.Kill(g.process, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	var events []EventKind
	for e := range g.Events() {
		events = append(events, e.Kind)
	}
	if want := []EventKind{Started, Exited, Gone}; !slices.Equal(events, want) {
		t.Errorf("events %v, want %v", events, want)
	}
}

// A guard that starts late starts the command if the lease was renewed meanwhile.
func TestARenewalBeforeALateStart(t *testing.T) {
	g, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(g.process, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(100 * time.Millisecond)
	g.Run(Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", "sleep 60"}, Env: os.Environ(),
		TTL: time.Minute, Deadline: At(func() time.Time { return end }), KillAfter: time.Minute, OnLost: KillOnLost,
	})
	g.Signal(syscall.SIGUSR1) // before the renewal, and for the command
	g.Extend(now().add(time.Minute))
	<-time.After(time.Until(end))
	if err := syscall.Kill(g.process, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	var events []EventKind
	for e := range g.Events() {
		events = append(events, e.Kind)
	}
	if want := []EventKind{Started, Exited, Gone}; !slices.Equal(events, want) {
		t.Errorf("events %v, want %v", events, want)
	}
}

// A guard that did not run until after the deadline that it knew ends no command whose lease was renewed.
func TestARenewalThatWaitsBeyondTheDeadline(t *testing.T) {
	var end time.Time
	s := run(t, "echo ready >$READY; exec sleep 60", func(c *Command) {
		end = time.Now().Add(2 * time.Second)
		c.TTL, c.Deadline = 2*time.Second, At(func() time.Time { return end })
	})
	if err := syscall.Kill(s.guard.process, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	s.guard.Extend(now().add(time.Minute))
	<-time.After(time.Until(end))
	if err := syscall.Kill(s.guard.process, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	s.guard.Signal(syscall.SIGUSR1)
	if e := s.until(Exited); e.Status.Signal() != syscall.SIGUSR1 || slices.Contains(s.heard, Terming) {
		t.Errorf("status %v; heard %v", e.Status, s.heard)
	}
	s.until(Gone)
}
