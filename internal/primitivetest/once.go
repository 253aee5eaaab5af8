package primitivetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/random"
)

// onceStep is one step of a onceProgram: a call or a fault, and then a pause.
type onceStep struct {
	Do     string // once, cut, heal, break
	Client int
	ID     string
	Keep   time.Duration
	Hold   time.Duration // how long fn takes
	Fail   bool
	Pass   time.Duration // after the step
}

// onceProgram is a script of work that must be done once.
type onceProgram []onceStep

func drawOnce(t *random.T, least int) Script {
	return onceProgram(random.SliceOfN(random.Custom(func(t *random.T) onceStep {
		return onceStep{
			Do:     random.SampledFrom([]string{"once", "once", "once", "once", "cut", "heal", "break"}).Draw(t, "do"),
			Client: random.IntRange(0, 3).Draw(t, "client"),
			ID:     random.SampledFrom([]string{"a", "b"}).Draw(t, "id"),
			Keep:   random.SampledFrom([]time.Duration{100 * time.Millisecond, 5 * time.Second, time.Minute}).Draw(t, "keep"),
			Hold:   millis(t, "hold", 20_000),
			Fail:   random.IntRange(0, 3).Draw(t, "fail") == 0,
			Pass:   millis(t, "pass", 10_000),
		}
	}), least, 30).Draw(t, "program"))
}

// mark is a mark in the model, made by a Once whose fn returned nil. It ends between last and
// end. A mark whose last is zero is a Once that did not run fn.
type mark struct {
	id        string
	sure      bool      // Once returned true and nil
	from      time.Time // when Once returned
	last, end time.Time
}

// onceRun runs a onceProgram and checks each Once against the marks.
type onceRun struct {
	simulation
	marks []mark
}

// errFailed is the error of an fn that fails on purpose.
var errFailed = errors.New("fn failed")

// clockStep is the precision of the store's clock.
const clockStep = 2 * time.Millisecond

func (w *onceRun) once(d onceStep) {
	var finished time.Time
	keep := max(holdfast.MinPeriod, w.span(d.Keep))
	ran, err := w.clients[d.Client].Once(context.Background(), d.ID, keep, func(ctx context.Context) error {
		w.begins(d.ID, holdfast.LeaseFromContext(ctx))
		select {
		case <-time.After(w.span(d.Hold)):
		case <-ctx.Done():
		}
		finished = time.Now()
		if d.Fail {
			return errFailed
		}
		return nil
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	switch {
	case ran && !d.Fail:
		m := mark{id: d.ID, sure: err == nil, from: now, last: finished.Add(keep - clockStep), end: now.Add(keep + clockStep)}
		if err != nil { // the client may still set the mark in the background
			m.end = now.Add(time.Minute + keep)
		}
		w.marks = append(w.marks, m)
		if err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrUnavailable) {
			w.failing("ran, and: %v", err)
		}
	case ran && !errors.Is(err, errFailed):
		w.failing("fn failed, and Once returned %v", err)
	case w.refused(err, d.Client, holdfast.DefaultTTL):
		// The operator broke a lease whose grant had not reached this client.
	case !ran && err != nil:
		w.failing("did not run: %v", err)
	case !ran:
		// The mark may have been visible before the Once that set it returned.
		w.marks = append(w.marks, mark{id: d.ID, from: now})
	}
}

// begins checks that no fn begins while a mark lasts. It ignores an fn whose lease has ended:
// the process was stalled, and others have acquired since.
func (w *onceRun) begins(id string, l *holdfast.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l.Token() == 0 {
		w.failing("%s runs without a token", id)
	}
	for _, m := range w.marks {
		now := time.Now()
		if m.id == id && m.sure && !now.Before(m.from) && now.Before(m.last) && l.Err() == nil {
			w.failing("%s runs at %v, although marked until %v", id, now, m.last)
		}
	}
}

// checkSkips checks that each Once that did not run fn returned while a mark may have lasted.
func (w *onceRun) checkSkips() {
	w.mu.Lock()
	defer w.mu.Unlock()
	late := w.late()
	if w.virtual() {
		late = 0
	}
	for _, m := range w.marks {
		if !m.last.IsZero() {
			continue
		}
		made := func(by mark) bool { return by.id == m.id && !by.last.IsZero() && !m.from.After(by.end.Add(late)) }
		if !slices.ContainsFunc(w.marks, made) {
			w.failing("%s was reported done at %v, and no run had done it", m.id, m.from)
		}
	}
}

func (w *onceRun) breakHolders(id string) {
	for _, h := range w.snapshot(id).Holders {
		_ = w.Store.Break(context.Background(), w.resource(id), engine.Break{ID: h.ID}) // the lease may have ended meanwhile
	}
}

// Play checks that no work is done again while its mark lasts, that no Once reports work
// as done before it is, and that marks end.
func (p onceProgram) Play(s *Environment) []string {
	w := &onceRun{}
	w.openClients(s, 4)
	w.nets[3].OnWake = func(engine.Wakeup) bool { return false } // client 3 receives no wake-ups
	for _, d := range p {
		switch d.Do {
		case "once":
			w.actors.Go(func() { w.once(d) })
		case "cut":
			w.nets[d.Client].All(Down)
		case "heal":
			w.nets[d.Client].All(nil)
		case "break":
			w.breakHolders(d.ID)
		}
		w.Idle()
		w.elapse(d.Pass)
	}
	for _, net := range w.nets {
		net.All(nil)
	}
	w.actors.Wait()
	w.checkSkips()
	w.elapse(2 * time.Minute) // every mark has ended
	for i, c := range w.clients {
		again := func() bool {
			ran, err := c.Once(context.Background(), "a", holdfast.MinPeriod, func(context.Context) error { return nil })
			if err != nil {
				w.fail("client %d at the end: %v", i, err)
			}
			return ran
		}
		if !w.Eventually(again) { // the mark of the client before lasts for MinPeriod only
			w.fail("client %d at the end: the work is still marked as done", i)
		}
		if w.virtual() {
			w.elapse(time.Second)
		}
	}
	return w.close("a", "b")
}
