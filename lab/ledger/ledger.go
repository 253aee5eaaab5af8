// Package ledger compares what clients claim with what a Redis did. It shares no code with the library: it reads
// the writes of the scripts with their times from MONITOR, and interprets them as docs/PROTOCOL.md describes the
// keys.
//
// A Ledger keeps, for each lease of one Redis, every deadline that was stored and the end of the lease. Judge then
// compares each trust window of a history with the ledgers of all nodes, and reports
//
//   - a lease that was never granted,
//   - a trust window that does not end before the deadline, with the margin that docs/GUARANTEES.md promises; it is the
//     deadline that was stored when the client stated the window,
//   - a lease that ended in the store while its client relied on it.
//
// While a server is down and until MONITOR runs again, a Ledger sees nothing. Windows that depend on such a time are
// not judged; Judge counts the others.
package ledger

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// never is the deadline of a lease that has ended.
const never = time.Duration(-1)

// change is an instant at which a lease's deadline was set.
type change struct {
	at       time.Duration
	deadline time.Duration // never: the lease ended
}

func (c change) String() string {
	if c.deadline == never {
		return fmt.Sprintf("at %v: ended", c.at)
	}
	return fmt.Sprintf("at %v: until %v", c.at, c.deadline)
}

// span is a time of the history.
type span struct{ from, to time.Duration }

// id identifies a lease of a Redis.
type id struct{ resource, holder string }

// Ledger is what one Redis did with the leases under one prefix. All times are since the start of the history.
type Ledger struct {
	prefix string
	start  time.Duration // the start of the history on the wall clock, which the server reads

	mu       sync.Mutex
	cores    map[string]map[string]string // fields of the cores that say who holds them
	leases   map[id][]change
	recalls  int
	commands []string
	blind    []span        // nothing was seen
	last     time.Duration // of what was seen
}

// New returns a Ledger of the keys under a prefix of Holdfast, for a history that began at start.
func New(prefix string, start time.Time) *Ledger {
	return &Ledger{prefix: prefix, start: wall(start), cores: map[string]map[string]string{}, leases: map[id][]change{}}
}

// wall is an instant on the wall clock.
func wall(t time.Time) time.Duration { return time.Duration(t.UnixMicro()) * time.Microsecond }

// since returns an instant of the history.
func (l *Ledger) since(t time.Time) time.Duration { return wall(t) - l.start }

// mostCommands bounds what a Ledger keeps of the commands.
const mostCommands = 100_000

// Commands returns what the Redis executed, with the times, the first 100,000 commands.
func (l *Ledger) Commands() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.commands)
}

// Recalls counts the messages by which the Redis has recalled leases.
func (l *Ledger) Recalls() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recalls
}

// set notes a deadline, or an end.
func (l *Ledger) set(of id, at, deadline time.Duration) {
	l.leases[of] = append(l.leases[of], change{at, deadline})
}

// end notes the end of a lease, if it has not ended.
func (l *Ledger) end(of id, at time.Duration) {
	if all := l.leases[of]; len(all) > 0 && all[len(all)-1].deadline != never {
		l.set(of, at, never)
	}
}
