package primitivetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// deed is one step of a random program: a client does something, and then time
// passes.
type deed struct {
	Do     string // once, cut, heal, break
	Client int
	ID     string
	Keep   time.Duration
	Hold   time.Duration // how long fn takes
	Fail   bool
	Pass   time.Duration
}

// deeds is a program of work that must be done once.
type deeds []deed

func drawWorkshop(t *rapid.T, least int) Script {
	return deeds(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) deed {
		return deed{
			Do:     rapid.SampledFrom([]string{"once", "once", "once", "once", "cut", "heal", "break"}).Draw(t, "do"),
			Client: rapid.IntRange(0, 3).Draw(t, "client"),
			ID:     rapid.SampledFrom([]string{"a", "b"}).Draw(t, "id"),
			Keep:   rapid.SampledFrom([]time.Duration{100 * time.Millisecond, 5 * time.Second, time.Minute}).Draw(t, "keep"),
			Hold:   millis(t, "hold", 20_000),
			Fail:   rapid.IntRange(0, 3).Draw(t, "fail") == 0,
			Pass:   millis(t, "pass", 10_000),
		}
	}), least, 30).Draw(t, "program"))
}

// mark is what the model knows of a mark: an fn that returned nil, until when it
// lasts at least, and at most. A mark without either is of one that was told.
type mark struct {
	id        string
	sure      bool      // Once returned true and nil
	from      time.Time // when it did
	last, end time.Time // lasts until last, and no longer than end
}

// workshop runs a program and checks each Once against the marks.
type workshop struct {
	world
	marks []mark
}

var errFailed = errors.New("it failed")

// clockStep is how exact the store's clock is.
const clockStep = 2 * time.Millisecond

func (w *workshop) once(d deed) {
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
		if err != nil { // the clean-up may mark it yet
			m.end = now.Add(time.Minute + keep)
		}
		w.marks = append(w.marks, m)
		if err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrUnavailable) {
			w.failing("ran, and: %v", err)
		}
	case ran && !errors.Is(err, errFailed):
		w.failing("fn failed, and Once says %v", err)
	case w.refused(err, d.Client, holdfast.DefaultTTL):
		// The operator broke a lease whose grant had not reached this client.
	case !ran && err != nil:
		w.failing("did not run: %v", err)
	case !ran:
		// Others learn of a mark at the moment at which its maker does.
		w.marks = append(w.marks, mark{id: d.ID, from: now})
	}
}

// begins checks that what is done is not done again. A run whose lease has ended
// was stopped for so long that others came after it.
func (w *workshop) begins(id string, l *holdfast.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.marks {
		now := time.Now()
		if m.id == id && m.sure && !now.Before(m.from) && now.Before(m.last) && l.Err() == nil {
			w.failing("%s runs at %v, although marked until %v", id, now, m.last)
		}
	}
}

// told checks that whoever was told that it was done came within a mark.
func (w *workshop) told() {
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
			w.failing("%s was told to be done at %v, and nobody had done it", m.id, m.from)
		}
	}
}

func (w *workshop) breaks(id string) {
	for _, h := range w.snapshot(id).Holders {
		_ = w.Store.Break(context.Background(), w.resource(id), engine.Break{ID: h.ID}) // it may have ended meanwhile
	}
}

// Play checks that nothing is done again while its mark lasts, that nobody is told
// that it was done before it was, and that marks end.
func (p deeds) Play(s *Stage) []string {
	w := &workshop{}
	w.enter(s, 4)
	w.nets[3].OnWake = func(engine.Wakeup) bool { return false } // it hears nothing
	for _, d := range p {
		switch d.Do {
		case "once":
			w.actors.Go(func() { w.once(d) })
		case "cut":
			w.nets[d.Client].All(Down)
		case "heal":
			w.nets[d.Client].All(nil)
		case "break":
			w.breaks(d.ID)
		}
		w.Rest()
		w.pass(d.Pass)
	}
	for _, net := range w.nets {
		net.All(nil)
	}
	w.actors.Wait()
	w.told()
	w.pass(2 * time.Minute) // every mark has ended
	for i, c := range w.clients {
		again := func() bool {
			ran, err := c.Once(context.Background(), "a", holdfast.MinPeriod, func(context.Context) error { return nil })
			if err != nil {
				w.fail("client %d at the end: %v", i, err)
			}
			return ran
		}
		if !w.Settle(again) { // the mark of the one before is short
			w.fail("client %d at the end: it is still marked", i)
		}
		if w.virtual() {
			w.pass(time.Second)
		}
	}
	return w.close("a", "b")
}
