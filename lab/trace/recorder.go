package trace

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// Trace is what happened to one resource in one store.
type Trace struct {
	Resource string
	Kind     engine.Kind
	Capacity int
	Began    int64 // when the store began, in microseconds since 1970
	Fixed    map[string]Terms
	Events   []Event
	// Unfit is why the modules cannot explain the trace; empty: they can.
	Unfit string
}

// Terms are what all requests of a holder ID have in common.
type Terms struct {
	Weight  int
	TTL     int64
	Reserve uint64 // tokens set aside with the grant
}

// Op is a call of an engine.
type Op string

// The calls.
const (
	Ask   Op = "ask"
	Renew Op = "renew"
	Leave Op = "leave" // a release or a withdrawal
	Break Op = "break"
)

// Event is one call with its answer, and what the store shows after it. Times are in microseconds.
type Event struct {
	At     int64 // since the store began
	Op     Op
	ID     string
	Yields string // of an Ask: the lease that it releases first
	Waits  bool   // of an Ask
	Force  bool   // of a Break
	TTL    int64  // of a Renew

	Says  string // of an Ask "granted", "queued", "busy" or "ended", of the others "done" or "no"
	Place int    // queued: how many are ahead
	Rest  int64  // granted: of the lease

	Holds []Holder // by token
	Line  []string // the live waiters
	Last  uint64   // the highest token given or set aside
}

// Holder is a live lease that the store shows.
type Holder struct {
	ID    string
	Rest  int64
	Token uint64
}

// Clone returns a copy that shares nothing with the trace.
func (t Trace) Clone() Trace {
	t.Events = slices.Clone(t.Events)
	for i, e := range t.Events {
		t.Events[i].Holds, t.Events[i].Line = slices.Clone(e.Holds), slices.Clone(e.Line)
	}
	return t
}

// Recorder records the calls that reach a number of stores.
type Recorder struct {
	mu     sync.Mutex
	traces []*Trace
}

// Traces returns what was recorded.
func (r *Recorder) Traces() []*Trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.traces)
}

// Wrap returns an engine that records the calls of another one, which is a store of its own.
func (r *Recorder) Wrap(e *memory.Engine) engine.Engine {
	return &store{Engine: e, r: r, began: time.Now().UnixMicro(), traces: map[engine.Resource]*Trace{}}
}

// store is an engine whose calls are recorded. It makes one call at a time, so that what it shows after a call is what
// that call has left.
type store struct {
	*memory.Engine
	r     *Recorder
	began int64

	mu     sync.Mutex
	traces map[engine.Resource]*Trace
}

// of returns the trace of a resource. The mutex is held.
func (s *store) of(res engine.Resource) *Trace {
	t := s.traces[res]
	if t == nil {
		t = &Trace{Resource: res.Name, Began: s.began, Fixed: map[string]Terms{}}
		s.traces[res] = t
		s.r.mu.Lock()
		s.r.traces = append(s.r.traces, t)
		s.r.mu.Unlock()
	}
	return t
}

// add completes an event by what the store shows after it. The mutex is held.
func (s *store) add(ctx context.Context, res engine.Resource, e Event) {
	t := s.of(res)
	e.At = time.Now().UnixMicro() - s.began
	now, err := s.Snapshot(context.WithoutCancel(ctx), res)
	if err != nil {
		t.Unfit = err.Error()
	}
	for _, h := range now.Holders {
		e.Holds = append(e.Holds, Holder{h.ID, h.TTL.Microseconds(), h.Token})
	}
	for _, w := range now.Waiters {
		e.Line = append(e.Line, w.ID)
	}
	e.Last = now.Token
	t.Events = append(t.Events, e)
}

// Acquire implements engine.Engine.
func (s *store) Acquire(ctx context.Context, q engine.Request) (engine.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, err := s.Engine.Acquire(ctx, q)
	e := Event{Op: Ask, ID: q.ID, Yields: q.Yields.ID, Waits: q.Queue}
	switch {
	case errors.Is(err, engine.ErrUnavailable):
		return a, err // it was not executed
	case errors.As(err, new(*engine.EndedError)):
		e.Says = "ended"
	case err != nil:
		s.of(q.Resource).Unfit = err.Error()
	case a.Status == engine.Granted:
		e.Says, e.Rest = "granted", a.TTL.Microseconds()
	case a.Status == engine.Queued:
		e.Says, e.Place = "queued", a.Position
	default:
		e.Says = "no"
	}
	s.of(q.Resource).request(q)
	s.add(ctx, q.Resource, e)
	return a, err
}

// request notes what is fixed for an ID.
func (t *Trace) request(q engine.Request) {
	terms := Terms{q.Weight, q.TTL.Microseconds(), q.Reserve}
	if t.Capacity == 0 {
		t.Kind, t.Capacity = q.Kind, q.Capacity
	}
	before, known := t.Fixed[q.ID]
	switch {
	case q.Mark > 0:
		t.Unfit = "marks"
	case q.Ballot > 0:
		t.Unfit = "ballots"
	case q.Kind != t.Kind || q.Capacity != t.Capacity:
		t.Unfit = "kinds"
	case known && before != terms:
		t.Unfit = "requests that change"
	}
	t.Fixed[q.ID] = terms
}

// Renew implements engine.Engine.
func (s *store) Renew(ctx context.Context, batch []engine.Renewal) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, r := range batch {
		err := s.Engine.Renew(ctx, []engine.Renewal{r})[0]
		errs = append(errs, err)
		s.outcome(ctx, r.Resource, Event{Op: Renew, ID: r.ID, TTL: r.TTL.Microseconds()}, err)
	}
	return errs
}

// Release implements engine.Engine.
func (s *store) Release(ctx context.Context, q engine.Release) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.Engine.Release(ctx, q)
	if q.Mark > 0 {
		s.of(q.Resource).Unfit = "marks"
	}
	s.outcome(ctx, q.Resource, Event{Op: Leave, ID: q.ID}, err)
	return err
}

// Resize implements engine.Engine.
func (s *store) Resize(ctx context.Context, res engine.Resource, h engine.Held, weight int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(res).Unfit = "demotions"
	return s.Engine.Resize(ctx, res, h, weight)
}

// Break implements engine.Engine.
func (s *store) Break(ctx context.Context, res engine.Resource, b engine.Break) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.Engine.Break(ctx, res, b)
	s.outcome(ctx, res, Event{Op: Break, ID: b.ID, Force: b.Force}, err)
	return err
}

// outcome records a call whose answer is that an ID was held, or was not. The mutex is held.
func (s *store) outcome(ctx context.Context, res engine.Resource, e Event, err error) {
	switch {
	case errors.Is(err, engine.ErrUnavailable):
		return // it was not executed
	case err == nil:
		e.Says = "done"
	case errors.As(err, new(*engine.NotHeldError)):
		e.Says = "no"
	default:
		s.of(res).Unfit = err.Error()
	}
	s.add(ctx, res, e)
}
