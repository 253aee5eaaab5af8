// Package guard runs a command and ends it, with all that it started, in time
// before a lease can pass to somebody else, also when the process that renews the
// lease is killed or stopped.
//
// Two processes take part, and with a terminal a third (RunClient). The parent (holdfast run) holds the lease and tells
// the guard, over a socket pair, until when the lease is sure. The guard is a
// second copy of the same program, in a process group of its own so that a kill
// of the parent's job does not reach it. It starts the command, passes signals
// on, reaps what the command leaves behind, and alone decides when the group
// must go:
//
//   - The deadline comes near and no later one was told: TERM, then KILL early
//     enough that the group is seen to be gone before the deadline.
//   - The parent orders a stop (lease lost, time limit hit): TERM, then KILL
//     after the grace, never later than the deadline allows.
//   - The socket closes, so the parent is dead: the same as a lost lease.
//
// If the guard itself is killed, Linux kills the command (parent death signal)
// and the parent kills the rest of the group.
//
// The group is everything the command started, background processes included,
// except what left the group on purpose (setsid, a shell with job control) and
// what runs as another user that may not be signalled.
//
// With a terminal the command joins the shell's job instead, so that it can read
// the terminal beside the other programs of a pipeline, and the keyboard's signals
// reach it. What it started is then found as the guard's descendants in the session.
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

// Command is what the guard is to run.
type Command struct {
	Path string   // of the executable, already looked up
	Args []string // with the name at index 0
	Env  []string
	// TTL of the lease: the longest the grace may be is a third of it.
	TTL time.Duration
	// Deadline is until when the lease is sure at the start.
	Deadline Instant
	// KillAfter is the time between TERM and KILL, if the deadline allows it.
	KillAfter time.Duration
	// OnLost says what to do when the lease is lost.
	OnLost OnLost
	// Nested is set below another holdfast run. There KILL follows the death
	// of the parent at once, since the outer lease may be about to pass on.
	Nested bool
	// Job is the process group that the command joins; 0 is a new one.
	Job int
	// RestoreTTOU is set if TTOU is ignored here, and shall not be by the command.
	RestoreTTOU bool
}

// OnLost says what happens to the command when the lease is lost.
type OnLost string

// The choices.
const (
	KillOnLost OnLost = "kill" // end the whole group in time
	WarnOnLost OnLost = "warn" // leave it alone
)

// Cause says why the group was stopped.
type Cause string

// The causes.
const (
	CauseLost     Cause = "lost"     // the parent said that the lease is lost
	CauseDeadline Cause = "deadline" // the trust window was about to close
	CauseTimeout  Cause = "timeout"  // the parent's time limit for the command
	CauseOrphaned Cause = "orphaned" // the parent died, or the shell's process before it
	CauseAsked    Cause = "asked"    // a signal to end was passed on
)

// Event is what the guard tells the parent; the fields that matter depend on
// the kind.
type Event struct {
	Kind   EventKind
	PID    int                // Started: process and group of the command
	Errno  syscall.Errno      // Failed: why it could not be started
	Text   string             // Failed: what was tried
	Status syscall.WaitStatus // Exited: how the command itself ended
	Cause  Cause              // Terming, Killing
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

// order is what the parent tells the guard; exactly one field is set.
type order struct {
	Start    *Command
	Deadline Instant
	Signal   syscall.Signal
	Stop     *stop
}

// stop orders the end of the group.
type stop struct {
	Cause  Cause
	Signal syscall.Signal
}

// grace is the time between TERM and KILL when the lease is at stake and its
// deadline is far.
func (c *Command) grace() time.Duration { return min(c.KillAfter, c.TTL/3) }

// notice is how long before the deadline TERM is sent, if nobody moves the
// deadline: long enough for the command to end by itself, and no longer than a
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
