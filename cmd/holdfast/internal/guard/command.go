package guard

import (
	"fmt"
	"syscall"
	"time"
)

// Name is the name (argv[0]) under which the program must be started to be a
// guard. It differs from the program's own, so that `pkill holdfast` ends the
// parent and leaves the guard to clean up.
const Name = "hf-guard"

// Command is what the guard runs.
type Command struct {
	Path string   // of the executable, already looked up
	Args []string // with the name at index 0
	Env  []string
	// TTL is that of the lease. The grace is at most a third of it.
	TTL time.Duration
	// Deadline is the end of the trust window at the start.
	Deadline Instant
	// KillAfter is the time between TERM and KILL, if the deadline allows it.
	KillAfter time.Duration
	// OnLost is what to do when the lease is lost.
	OnLost OnLost
	// Nested is set below another holdfast run. KILL then follows the death of
	// the parent at once, since the outer lease may end at any moment.
	Nested bool
	// Job is the process group that the command joins; 0 is a new one.
	Job int
	// RestoreTTOU is set if TTOU is ignored here, but must not be by the command.
	RestoreTTOU bool
}

// OnLost is what happens to the command when the lease is lost.
type OnLost string

// The choices.
const (
	KillOnLost OnLost = "kill" // end the whole group in time
	WarnOnLost OnLost = "warn" // leave it alone
)

// StopCause is why the group was stopped.
type StopCause string

// The causes.
const (
	CauseLost     StopCause = "lost"     // the parent reported that the lease is lost
	CauseDeadline StopCause = "deadline" // the trust window was about to end
	CauseTimeout  StopCause = "timeout"  // the parent's time limit for the command
	CauseOrphaned StopCause = "orphaned" // the parent died, or the shell's process before it
	CauseAsked    StopCause = "asked"    // a signal to end was passed on
)

// Event is a message of the guard to the parent. The fields that are set depend on the
// kind.
type Event struct {
	Kind   EventKind
	PID    int                // Started: process and group of the command
	Errno  syscall.Errno      // Failed: why it could not be started
	Text   string             // Failed: what was tried
	Status syscall.WaitStatus // Exited: how the command itself ended
	Cause  StopCause          // Terming, Killing
	Left   time.Duration      // Gone: trust window left when the group was empty
}

// EventKind is the kind of an Event.
type EventKind uint8

// The kinds, in the order in which they can come.
const (
	Started   EventKind = iota + 1 // the command runs
	Failed                         // the command could not be started; nothing follows
	Suspended                      // it was stopped from the terminal, and continued
	Exited                         // the command ended; others of its group may remain
	Terming                        // TERM (or the chosen signal) was sent
	Killing                        // KILL was sent
	Overdue                        // the deadline passed and the group is still there
	Gone                           // the group is empty; nothing follows
)

// order is a message of the parent to the guard; exactly one field is set.
type order struct {
	Start    *start
	Deadline Instant
	Signal   syscall.Signal
	Stop     *stop
}

// start is a Command as JSON, where a string must be UTF-8; arguments and environment may be any bytes.
type start struct {
	Command // but for the fields below
	Path    []byte
	Args    [][]byte
	Env     [][]byte
}

func newStart(c Command) *start {
	return &start{Command: c, Path: []byte(c.Path), Args: bytesOf(c.Args), Env: bytesOf(c.Env)}
}

func (s *start) command() Command {
	c := s.Command
	c.Path, c.Args, c.Env = string(s.Path), stringsOf(s.Args), stringsOf(s.Env)
	return c
}

func bytesOf(texts []string) [][]byte {
	all := make([][]byte, len(texts))
	for i, text := range texts {
		all[i] = []byte(text)
	}
	return all
}

func stringsOf(texts [][]byte) []string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = string(text)
	}
	return all
}

// stop orders the end of the group.
type stop struct {
	Cause  StopCause
	Signal syscall.Signal
}

// grace is the time between TERM and KILL when the lease is at stake and its
// deadline is far.
func (c *Command) grace() time.Duration { return min(c.KillAfter, c.TTL/3) }

// notice is how long before the deadline TERM is sent, unless the deadline is moved: long
// enough for the command to end by itself, and no longer than a
// third of the TTL, so that a renewal may fail once without harm.
func (c *Command) notice() time.Duration { return min(c.KillAfter+c.lead(), c.TTL/3) }

// lead is how long before the deadline KILL must be sent at the latest, so that
// the group is seen to be gone before it.
func (c *Command) lead() time.Duration {
	return min(max(c.TTL/10, 20*time.Millisecond), time.Second)
}

func (k EventKind) String() string {
	names := [...]string{"?", "started", "failed", "suspended", "exited", "terming", "killing", "overdue", "gone"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("event %d", uint8(k))
}
