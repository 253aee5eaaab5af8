// Package history records a run: which client called which operation, when, and with
// which outcome. Workloads write a history and checks read it, independently of each
// other. It is stored as one JSON object a line, so that a failure can be kept.
package history

import (
	"sync"
	"time"
)

// Kind is the kind of an operation.
type Kind string

// The kinds of operation. Acquire to Renew are calls of the lock; Lost is the moment at
// which a holder was notified of a loss; the rest happen on the protected side. All times
// are of a clock that no lock reads.
const (
	Acquire Kind = "acquire" // Until is the end of the trust window
	Release Kind = "release"
	Renew   Kind = "renew" // Until is the new end of the trust window
	Lost    Kind = "lost"
	Enter   Kind = "enter"  // the holder begins to rely on the lease
	Leave   Kind = "leave"  // the holder no longer relies on it
	Read    Kind = "read"   // Value was read
	Write   Kind = "write"  // Value was written, if Outcome is OK
	Seen    Kind = "seen"   // an observer saw the leader of an election: Token, Store is its ID and Note its value; Token 0: none
	Set     Kind = "set"    // of a latch; Value is the count
	Count   Kind = "count"  // of a latch, down by one: when it begins, with an Unknown outcome, and when it is OK
	Wait    Kind = "wait"   // for a latch or a condition
	Signal  Kind = "signal" // to all that wait for a condition
	Run     Kind = "run"    // work that should happen once a slot; Value is the slot
)

// Outcome is the known result of an operation.
type Outcome string

// The outcomes. An Unknown operation may have happened or may yet happen; it never counts
// as a failure.
const (
	OK      Outcome = "ok"
	Failed  Outcome = "failed"
	Unknown Outcome = "unknown"
)

// Op is one operation. All instants are real time since the start of the run,
// taken by the lab and not by the client, whose clock may be wrong.
type Op struct {
	Client   string        `json:"client"`
	Kind     Kind          `json:"kind"`
	Resource string        `json:"resource,omitempty"`
	Call     time.Duration `json:"call"`
	Return   time.Duration `json:"return"` // equal to Call if the operation is an instant; meaningless if Unknown
	Outcome  Outcome       `json:"outcome"`
	Holder   string        `json:"holder,omitempty"` // identifies a lease: the same for an acquire and the operations after it
	Token    uint64        `json:"token,omitempty"`  // 0: the lock has none
	Weight   int           `json:"weight,omitempty"` // 0 means 1
	Capacity int           `json:"capacity,omitempty"`
	Until    time.Duration `json:"until,omitempty"` // end of the trust window; 0: the lock has none
	Value    int64         `json:"value,omitempty"`
	Note     string        `json:"note,omitempty"`
	// Shared is, for a reader's Acquire, the ID of a lease of the store that other readers of the client may share:
	// they have its token.
	Shared string `json:"shared,omitempty"`
	// Store is, for an Acquire, the ID of the lease in the store, if the lock has one.
	Store string `json:"store,omitempty"`
	// Try is set for an Acquire that does not wait.
	Try bool `json:"try,omitempty"`
}

// Recorder collects operations from many goroutines.
type Recorder struct {
	start  time.Time
	report func(Op) // receives each operation; nil: they are appended to ops

	mu  sync.Mutex
	ops []Op
}

// NewRecorder starts a history now.
func NewRecorder() *Recorder { return NewRecorderAt(time.Now()) }

// NewRecorderAt starts a history at an instant shared by several processes.
func NewRecorderAt(start time.Time) *Recorder { return &Recorder{start: start} }

// NewReporter returns a Recorder for a history that began at start in another process.
// It calls report with each operation and stores none.
func NewReporter(start time.Time, report func(Op)) *Recorder {
	return &Recorder{start: start, report: report}
}

// Now returns the time since the start.
func (r *Recorder) Now() time.Duration { return time.Since(r.start) }

// At returns the time from the start to an instant.
func (r *Recorder) At(t time.Time) time.Duration { return t.Sub(r.start) }

// Add appends an operation.
func (r *Recorder) Add(op Op) {
	if r.report != nil {
		r.report(op)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, op)
}

// Ops returns a copy of the operations added so far, in the order of Add.
func (r *Recorder) Ops() []Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Op(nil), r.ops...)
}
