package fault

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// World is the target of faults.
type World interface {
	// Begin begins a fault. For a fault that waits for an event, such as LoseReply, it
	// returns a channel that is closed when the fault has happened; nil means that it
	// already has. It is not called for Stall, which the Injector does itself.
	Begin(f Fault) (hit <-chan struct{}, err error)
	// End ends a fault that Begin began, if its kind can end.
	End(f Fault) error
}

// ErrKilled is returned by Point if a fault has killed the client.
var ErrKilled = errors.New("killed by a fault")

// Injector injects the faults of a schedule. It is safe for concurrent use.
type Injector struct {
	world World
	done  chan struct{} // closed by Stop
	tasks sync.WaitGroup

	mu        sync.Mutex
	started   time.Time
	visits    map[place]int
	announced map[When]bool
	events    []event
	state     []*state
	dead      map[string]bool
	errs      []error
	stopped   bool
}

// place is a point of a client.
type place struct{ who, point string }

// event is a wait for a visit of a point.
type event struct {
	when When
	come chan struct{}
}

// state is the state of a fault.
type state struct {
	fault Fault
	begun bool
	works bool          // its beginning did not fail
	began time.Duration // since the start
	hit   <-chan struct{}
	ready chan struct{} // closed when its beginning is complete
	over  chan struct{} // closed at its end
	once  sync.Once
}

// NewInjector prepares faults. If one does not pass Check, Stop returns its error.
func NewInjector(world World, faults ...Fault) *Injector {
	i := &Injector{world: world, done: make(chan struct{}), visits: map[place]int{},
		announced: map[When]bool{}, dead: map[string]bool{}}
	for _, f := range faults {
		if err := f.Check(); err != nil {
			i.errs = append(i.errs, fmt.Errorf("%v: %w", f, err))
			continue
		}
		i.state = append(i.state, &state{fault: f, ready: make(chan struct{}), over: make(chan struct{})})
	}
	return i
}

// Start starts the clock and the faults that begin at a time.
func (i *Injector) Start() {
	i.mu.Lock()
	i.started = time.Now()
	i.mu.Unlock()
	for _, s := range i.state {
		if s.fault.At.Who != "" {
			continue
		}
		if s.fault.At.After == 0 {
			i.begin(s)
			continue
		}
		i.later(s.fault.At.After, func() { i.begin(s) })
	}
}

// later calls a function after a time, unless the run is over by then.
func (i *Injector) later(d time.Duration, do func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.stopped {
		return
	}
	i.tasks.Go(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			do()
		case <-i.done:
		}
	})
}

// Point reports that a client has reached a point. It ends and begins the faults of this
// moment, in the order of the schedule. It returns when the caller may continue: after
// the end of a Pause or Stall with the caller as target. It returns ErrKilled if the
// caller has been killed, and the cause of ctx if ctx ended first.
func (i *Injector) Point(ctx context.Context, who, point string) error {
	now := i.visit(who, point)
	var held []*state
	for _, s := range i.state {
		if s.fault.Until == now {
			i.end(s)
		}
	}
	for _, s := range i.state {
		if s.fault.At != now {
			continue
		}
		i.begin(s)
		if s.fault.Target == who && (s.fault.Kind == Pause || s.fault.Kind == Stall) {
			held = append(held, s)
		}
	}
	i.announce(now)
	for _, s := range held {
		select {
		case <-s.over:
		case <-i.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.dead[who] {
		return ErrKilled
	}
	return nil
}

// visit counts a visit of a point.
func (i *Injector) visit(who, point string) When {
	i.mu.Lock()
	defer i.mu.Unlock()
	at := place{who, point}
	i.visits[at]++
	return When{Who: who, Point: point, Nth: i.visits[at]}
}

// announce wakes the waiters for a visit, after its faults have begun.
func (i *Injector) announce(now When) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.announced[now] = true
	for _, e := range i.events {
		if e.when == now {
			close(e.come)
		}
	}
}

// Await returns when a client has reached a point for the nth time and the faults of
// that moment have begun, or with the cause of ctx.
func (i *Injector) Await(ctx context.Context, w When) error {
	i.mu.Lock()
	if i.announced[w] {
		i.mu.Unlock()
		return nil
	}
	e := event{w, make(chan struct{})}
	i.events = append(i.events, e)
	i.mu.Unlock()
	select {
	case <-e.come:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("nobody came to %v: %w", w, context.Cause(ctx))
	}
}

// begin begins a fault, once.
func (i *Injector) begin(s *state) {
	f := s.fault
	i.mu.Lock()
	if s.begun || i.stopped {
		i.mu.Unlock()
		return
	}
	s.begun, s.began = true, time.Since(i.started)
	if f.Kind == Kill {
		i.dead[f.Target] = true
	}
	i.mu.Unlock()
	var hit <-chan struct{}
	var err error
	if f.Kind != Stall {
		hit, err = i.world.Begin(f)
	}
	i.mu.Lock()
	s.hit, s.works = hit, err == nil
	i.note(f, err)
	i.mu.Unlock()
	close(s.ready)
	if f.For > 0 {
		i.later(f.For, func() { i.end(s) })
	}
}

// end ends a fault, once, if it has begun.
func (i *Injector) end(s *state) {
	i.mu.Lock()
	begun := s.begun
	i.mu.Unlock()
	if !begun || !s.fault.Kind.ends() {
		return
	}
	<-s.ready
	s.once.Do(func() {
		var err error
		if s.fault.Kind != Stall && s.works {
			err = i.world.End(s.fault)
		}
		i.mu.Lock()
		i.note(s.fault, err)
		i.mu.Unlock()
		close(s.over)
	})
}

// note records an error; i.mu is held.
func (i *Injector) note(f Fault, err error) {
	if err != nil {
		i.errs = append(i.errs, fmt.Errorf("%v: %w", f, err))
	}
}

// Stop ends all active faults and waits for the Injector's goroutines. The faults end at the
// same time: one may begin only when another has ended, as a writer that locks out a
// process that was stopped with the lock. It returns the joined errors of all faults.
func (i *Injector) Stop() error {
	i.mu.Lock()
	first := !i.stopped
	i.stopped = true
	i.mu.Unlock()
	if first {
		close(i.done)
	}
	var ends sync.WaitGroup
	for _, s := range i.state {
		ends.Go(func() { i.end(s) })
	}
	ends.Wait()
	i.tasks.Wait()
	i.mu.Lock()
	defer i.mu.Unlock()
	return errors.Join(i.errs...)
}

// Hit is a fault that happened.
type Hit struct {
	Fault Fault
	At    time.Duration // since Start
}

// Hits returns the faults that have happened, in the order of the schedule.
func (i *Injector) Hits() []Hit {
	i.mu.Lock()
	defer i.mu.Unlock()
	var out []Hit
	for _, s := range i.state {
		if s.happened() {
			out = append(out, Hit{s.fault, s.began})
		}
	}
	return out
}

// Missed returns the faults that have not happened. A fault missed at the end is an error
// of the run.
func (i *Injector) Missed() Schedule {
	i.mu.Lock()
	defer i.mu.Unlock()
	var out Schedule
	for _, s := range i.state {
		if !s.happened() {
			out = append(out, s.fault)
		}
	}
	return out
}

func (s *state) happened() bool {
	if !s.works || s.hit == nil {
		return s.works
	}
	select {
	case <-s.hit:
		return true
	default:
		return false
	}
}
