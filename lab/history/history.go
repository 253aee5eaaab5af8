// Package history is what the lab sees of a run: who asked for what, when, and
// what came of it. Workloads write it, checks read it, and neither knows the
// other. It prints as one JSON object a line, so that a failure can be kept.
package history

import (
	"sync"
	"time"
)

// Kind says what was done.
type Kind string

// The kinds of operation. Acquire to Renew are calls of the lock; Lost is the
// moment a holder was told; the rest happen on the protected side, and on a
// clock that no lock reads.
const (
	Acquire Kind = "acquire" // Until is the end of the trust window
	Release Kind = "release"
	Renew   Kind = "renew" // Until is the new end of the trust window
	Lost    Kind = "lost"
	Enter   Kind = "enter" // the holder begins to rely on the lease
	Leave   Kind = "leave" // it no longer does
	Read    Kind = "read"  // Value was seen
	Write   Kind = "write" // Value was written, if Outcome is OK
	Run     Kind = "run"   // work that should happen once a slot; Value is the slot
)

// Outcome says what is known of the result.
type Outcome string

// The outcomes. Unknown may have happened, and may yet happen: it is never
// counted as a failure.
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
	Return   time.Duration `json:"return"` // as Call where the operation is an instant; meaningless if Unknown
	Outcome  Outcome       `json:"outcome"`
	Holder   string        `json:"holder,omitempty"` // one stay of one client: joins an acquire to what follows
	Token    uint64        `json:"token,omitempty"`  // 0: the lock has none
	Weight   int           `json:"weight,omitempty"` // 0 stands for 1
	Capacity int           `json:"capacity,omitempty"`
	Until    time.Duration `json:"until,omitempty"` // end of the trust window; 0: the lock has none
	Value    int64         `json:"value,omitempty"`
	Note     string        `json:"note,omitempty"`
}

// Recorder collects operations from many goroutines.
type Recorder struct {
	start time.Time
	tell  func(Op) // hears of each operation in place of ops; nil: they are kept

	mu  sync.Mutex
	ops []Op
}

// NewRecorder starts a history now.
func NewRecorder() *Recorder { return NewRecorderAt(time.Now()) }

// NewRecorderAt starts a history at an instant that several processes know.
func NewRecorderAt(start time.Time) *Recorder { return &Recorder{start: start} }

// NewReporter takes part in a history that began at start, in another process: it
// tells each operation and keeps none.
func NewReporter(start time.Time, tell func(Op)) *Recorder {
	return &Recorder{start: start, tell: tell}
}

// Now is the time since the start.
func (r *Recorder) Now() time.Duration { return time.Since(r.start) }

// At turns an instant into the time since the start.
func (r *Recorder) At(t time.Time) time.Duration { return t.Sub(r.start) }

// Add appends an operation.
func (r *Recorder) Add(op Op) {
	if r.tell != nil {
		r.tell(op)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, op)
}

// Ops returns a copy of what was added so far, in the order of adding.
func (r *Recorder) Ops() []Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Op(nil), r.ops...)
}
