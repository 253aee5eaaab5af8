package guard

import (
	"fmt"
	"syscall"
	"time"
)

// Name is the name (argv[0]) under which the program is a guard. It differs from the
// program's own, so that `pkill holdfast` ends the parent and not the guard, which then
// ends the command.
const Name = "hf-guard"

// Command is what the guard runs.
type Command struct {
	Path string   // of the executable, already looked up
	Args []string // with the name at index 0
	Env  []string
	// TTL is the TTL of the lease. The grace is at most a third of it.
	TTL time.Duration
	// Deadline is the end of the trust window at the start.
	Deadline Instant
	// KillAfter is the time between TERM and KILL, if the deadline allows it.
	KillAfter time.Duration
	// OnLost is what the guard does when the lease is lost.
	OnLost OnLost
	// Nested reports that another holdfast run has started this one. When the parent
	// dies, the guard then sends KILL at once, since the outer lease may end at any moment.
	Nested bool
	// Job is the process group that the command joins; 0: a new one.
	Job int
	// RestoreTTOU reports that this process ignores TTOU and the command must not.
	RestoreTTOU bool
}

// OnLost is what the guard does when the lease is lost.
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
	CauseOrphaned StopCause = "orphaned" // the parent died, or the process in the shell's job
	CauseAsked    StopCause = "asked"    // the parent received a signal that ends processes
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
	Suspended                      // the command was stopped from the terminal, and continued
	Exited                         // the command ended; other processes of its group may remain
	Terming                        // TERM (or the chosen signal) was sent
	Killing                        // KILL was sent
	Overdue                        // the deadline has passed and the group is not empty
	Gone                           // the group is empty; nothing follows
)

// order is a message of the parent to the guard; exactly one field is set.
type order struct {
	Start    *start
	Deadline Instant
	Signal   syscall.Signal
	Stop     *stop
}

// start is a Command for JSON. Its path, arguments and environment are bytes, since strings in
// JSON must be UTF-8.
type start struct {
	Command // without the fields below
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

// grace returns the time between TERM and KILL when the lease is lost and its deadline is
// far.
func (c *Command) grace() time.Duration { return min(c.KillAfter, c.TTL/3) }

// notice returns how long before the deadline TERM is sent: long enough for the command to end
// by itself, and at most a third of the TTL, so that one renewal may fail without a TERM.
func (c *Command) notice() time.Duration { return min(c.KillAfter+c.lead(), c.TTL/3) }

// lead returns how long before the deadline KILL must be sent at the latest, so that the
// guard sees the group empty before the deadline.
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
