// Package ledger compares what clients claim with what a store did. It shares no code with the library.
//
// A Ledger keeps, for each lease of one store, every deadline that was stored and the end of the lease. Judge then
// compares each trust window of a history with the ledgers of all nodes, and reports
//
//   - a lease that was never granted,
//   - a trust window that does not end before the deadline, with the margin that docs/GUARANTEES.md promises; it is the
//     deadline that was stored when the client stated the window,
//   - a lease that ended in the store while its client relied on it.
//
// # Redis
//
// A Ledger reads the writes of the scripts with their times from MONITOR, and interprets them as docs/PROTOCOL.md
// describes the keys. While a server is down and until MONITOR runs again, a Ledger sees nothing. Windows that depend on
// such a time are not judged; Judge counts the others.
//
// # Documents
//
// The other stores keep one document a resource, whose format is in document.go. A Ledger gets every version of each, in
// order, with bounds of the time at which the store made it:
//
//   - PostgreSQL: a trigger of the lab copies each version into a table, with the server's clock,
//   - MariaDB: the table has system versioning, and so keeps each version, with the server's clock,
//   - SQLite: a trigger copies each version, and the lab looks for new ones each millisecond,
//   - etcd: a watch sends each version, and reads by the lab, which report how far the store is, bound its time,
//   - ZooKeeper: the server's transaction log has each version, with the server's clock.
//
// Where leases end at instants of the store's clock (PostgreSQL, MariaDB), the deadline is in the document. On the
// others each client counts the TTL from the moment at which it received the document with the latest renewal. It receives
// it after the store has made it, so a trust window has to end, with the margin, before that instant plus the TTL; the
// Ledger takes the latest that the instant may be. On SQLite clients count from the time that the row states.
//
// From the documents alone a Ledger also reports a token that is not above those of all earlier leases, the token of a
// client that is not one of its lease, and a lease that expired before its time was over.
package ledger

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
)

// never is the deadline of a lease that has ended.
const never = time.Duration(-1)

// change is one of a lease's deadline.
type change struct {
	made     span          // the store made it at an instant of it
	deadline time.Duration // never: the lease ended
}

func (c change) String() string {
	if c.deadline == never {
		return fmt.Sprintf("at %v: ended", c.made)
	}
	return fmt.Sprintf("at %v: until %v", c.made, c.deadline)
}

// span is a time of the history.
type span struct{ from, to time.Duration }

// instant returns the span of one instant.
func instant(at time.Duration) span { return span{at, at} }

func (s span) String() string {
	if s.from == s.to {
		return s.from.String()
	}
	return fmt.Sprintf("%v to %v", s.from, s.to)
}

// id identifies a lease of a store.
type id struct{ resource, holder string }

// Ledger is what one store did with the leases under one prefix. All times are since the start of the history.
type Ledger struct {
	prefix string
	began  time.Time
	start  time.Duration // the start of the history on the machine's wall clock
	clock  func() Clock  // the wall clock that the server reads

	mu        sync.Mutex
	named     map[id]time.Duration         // when an ID was first written, of a waiter or a holder
	cores     map[string]map[string]string // fields of the cores that say who holds them
	tokens    map[string][]granted         // by resource
	resources map[string]*tracked          // of documents
	leases    map[id][]change
	recalls   int
	commands  []string
	blind     []span            // nothing was seen
	last      time.Duration     // of what was seen
	wrong     []check.Violation // in the documents alone
}

// Clock is the wall clock that a server reads, such as a redistest.RatedClock.
type Clock interface {
	// Real returns the instant of the machine's wall clock at which it shows t.
	Real(t time.Time) time.Time
	// Gain returns by how many seconds per second it runs fast: slow, if negative.
	Gain() float64
	// Error returns what Real may be wrong by.
	Error() time.Duration
}

// machine is the machine's wall clock.
type machine struct{}

func (machine) Real(t time.Time) time.Time { return t }
func (machine) Gain() float64              { return 0 }
func (machine) Error() time.Duration       { return 0 }

// New returns a Ledger of the keys under a prefix of Holdfast, for a history that began at start, of a server with the machine's clock.
func New(prefix string, start time.Time) *Ledger {
	return NewWithClock(prefix, start, func() Clock { return machine{} })
}

// NewWithClock is New for a server with a clock of its own.
func NewWithClock(prefix string, start time.Time, clock func() Clock) *Ledger {
	return &Ledger{prefix: prefix, began: start, start: wall(start), clock: clock, named: map[id]time.Duration{}, cores: map[string]map[string]string{}, tokens: map[string][]granted{},
		resources: map[string]*tracked{}, leases: map[id][]change{}}
}

// wall is an instant on the wall clock.
func wall(t time.Time) time.Duration { return time.Duration(t.UnixMicro()) * time.Microsecond }

// since returns an instant of the history.
func (l *Ledger) since(t time.Time) time.Duration { return wall(t) - l.start }

// shown returns the instant of the history at which the server's clock shows so much since 1970.
func (l *Ledger) shown(d time.Duration) time.Duration {
	return l.since(l.clock().Real(time.UnixMicro(d.Microseconds())))
}

// Named returns when the Redis first wrote the ID of a lease, as that of a waiter or a holder. Ok is false if it was not
// seen.
func (l *Ledger) Named(resource, store string) (at time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok = l.named[id{resource, store}]
	return at, ok
}

// granted is a lease of a resource with a capacity of 1, and its tokens: those after the first are for the next callers of
// its process.
type granted struct {
	holder      string
	first, last uint64
}

// Granted returns the ID of the lease, of a resource with a capacity of 1, that a Redis granted with a token; "" if it was not seen.
func (l *Ledger) Granted(resource string, token uint64) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.tokens[resource] {
		if g.first <= token && token <= g.last {
			return g.holder
		}
	}
	return ""
}

// grant notes the tokens of a lease, of which the store has the last, and the number of those after the first in the note.
func (l *Ledger) grant(resource, holder, last, note string) {
	top, err := strconv.ParseUint(last, 10, 64)
	all := l.tokens[resource]
	if err != nil || len(all) > 0 && all[len(all)-1].last >= top {
		return
	}
	reserve, _, _ := strings.Cut(note, " ")
	after, _ := strconv.ParseUint(reserve, 10, 64) // no note: none
	l.tokens[resource] = append(all, granted{holder, top - min(after, top), top})
}

// name notes the first time at which an ID was written.
func (l *Ledger) name(of id, at time.Duration) {
	if _, known := l.named[of]; !known {
		l.named[of] = at
	}
}

// now returns the present instant of the history.
func (l *Ledger) now() time.Duration { return time.Since(l.began) }

// Recording is a Ledger that is being written.
type Recording interface {
	// Close reads what the store has done until now, and ends. The error means that the Ledger is not complete.
	Close(ctx context.Context) error
}

// each calls f at intervals until ctx ends.
func each(ctx context.Context, interval time.Duration, f func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			f()
		case <-ctx.Done():
			return
		}
	}
}

// mostCommands bounds what a Ledger keeps of the commands.
const mostCommands = 100_000

// note keeps a command, or a version of a document.
func (l *Ledger) note(text string) {
	if len(l.commands) < mostCommands {
		l.commands = append(l.commands, text)
	}
}

// Commands returns what a Redis executed, or the versions of the documents, with the times: the first 100,000.
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
func (l *Ledger) set(of id, made span, deadline time.Duration) {
	l.name(of, made.from)
	l.leases[of] = append(l.leases[of], change{made, deadline})
}

// end notes the end of a lease, if it has not ended.
func (l *Ledger) end(of id, made span) {
	if all := l.leases[of]; len(all) > 0 && all[len(all)-1].deadline != never {
		l.set(of, made, never)
	}
}

// StoredSince returns the first instant since another at which a deadline of a lease was stored; false: none was.
func (l *Ledger) StoredSince(resource, store string, since time.Duration) (at time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range slices.Concat(l.of(resource, store)...) {
		if c.deadline != never && c.made.from >= since && (!ok || c.made.from < at) {
			at, ok = c.made.from, true
		}
	}
	return at, ok
}

// DeadlineAt returns the deadline of a lease that was in force at an instant; it is negative if there was none.
func (l *Ledger) DeadlineAt(resource, store string, at time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of(resource, store).deadlineIn(at, at)
}

// LastDeadline returns the last deadline of a lease that was stored until an instant, whether the lease has ended since or not; it
// is negative if there was none.
func (l *Ledger) LastDeadline(resource, store string, at time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := change{made: instant(never), deadline: never}
	for _, c := range slices.Concat(l.of(resource, store)...) {
		if c.made.to <= at && c.deadline != never && c.made.to >= last.made.to {
			last = c
		}
	}
	return last.deadline
}

// Blind makes Judge skip the windows that depend on a time: the Redis was no master then.
func (l *Ledger) Blind(from, to time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blind = append(l.blind, span{from, to})
}
