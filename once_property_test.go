package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
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

func drawDeed(t *rapid.T) deed {
	ms := func(most int, name string) time.Duration {
		return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Millisecond
	}
	return deed{
		Do:     rapid.SampledFrom([]string{"once", "once", "once", "once", "cut", "heal", "break"}).Draw(t, "do"),
		Client: rapid.IntRange(0, 3).Draw(t, "client"),
		ID:     rapid.SampledFrom([]string{"a", "b"}).Draw(t, "id"),
		Keep:   rapid.SampledFrom([]time.Duration{100 * time.Millisecond, 5 * time.Second, time.Minute}).Draw(t, "keep"),
		Hold:   ms(20_000, "hold"),
		Fail:   rapid.IntRange(0, 3).Draw(t, "fail") == 0,
		Pass:   ms(10_000, "pass"),
	}
}

// mark is what the model knows of a mark: an fn that returned nil, until when it
// lasts at least, and at most.
type mark struct {
	id        string
	sure      bool      // Once returned true and nil
	from      time.Time // when it did
	last, end time.Time // lasts until last, and no longer than end
}

// workshop runs a program and checks each Once against the marks.
type workshop struct {
	mu     sync.Mutex
	marks  []mark
	faults []string
}

func (w *workshop) fail(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

func (w *workshop) once(c *holdfast.Client, d deed) {
	var finished time.Time
	ran, err := c.Once(context.Background(), d.ID, d.Keep, func(ctx context.Context) error {
		w.mu.Lock()
		for _, m := range w.marks {
			if m.id == d.ID && m.sure && !time.Now().Before(m.from) && time.Now().Before(m.last) {
				w.fail("%s runs at %v, although marked until %v", d.ID, time.Now(), m.last)
			}
		}
		w.mu.Unlock()
		select {
		case <-time.After(d.Hold):
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
		m := mark{id: d.ID, sure: err == nil, from: now, last: finished.Add(d.Keep), end: now.Add(d.Keep)}
		if err != nil { // the clean-up may mark it yet
			m.end = now.Add(time.Minute + d.Keep)
		}
		w.marks = append(w.marks, m)
		if err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrUnavailable) {
			w.fail("ran, and: %v", err)
		}
	case ran && !errors.Is(err, errFailed):
		w.fail("fn failed, and Once says %v", err)
	case errors.Is(err, holdfast.ErrNotAcquired):
		// The operator broke a lease whose grant had not reached this client.
	case !ran && err != nil:
		w.fail("did not run: %v", err)
	case !ran:
		// Others learn of a mark at the moment at which its maker does.
		w.marks = append(w.marks, mark{id: d.ID, end: now, from: now})
	}
}

// told checks that whoever was told that it was done came within a mark.
func (w *workshop) told() {
	for _, m := range w.marks {
		if m.sure || !m.last.IsZero() {
			continue
		}
		found := false
		for _, by := range w.marks {
			found = found || by.id == m.id && !by.last.IsZero() && !m.from.After(by.end)
		}
		if !found {
			w.fail("%s was told to be done at %v, and nobody had done it", m.id, m.from)
		}
	}
}

func (w *workshop) run(program []deed) {
	store := memory.New()
	var nets []*faulty
	var clients []*holdfast.Client
	for i := range 4 {
		net := newFaulty()
		net.Engine = store
		if i == 3 { // it hears nothing
			net.wake = func(engine.Wakeup) bool { return false }
		}
		c, err := holdfast.New(net)
		if err != nil {
			w.fail("%v", err)
			return
		}
		nets, clients = append(nets, net), append(clients, c)
	}
	var actors sync.WaitGroup
	for _, d := range program {
		switch d.Do {
		case "once":
			actors.Go(func() { w.once(clients[d.Client], d) })
		case "cut":
			nets[d.Client].all(down)
		case "heal":
			nets[d.Client].all(nil)
		case "break":
			id := engine.Resource{Prefix: holdfast.DefaultPrefix, Name: d.ID}
			s, err := store.Snapshot(context.Background(), id)
			for _, h := range s.Holders {
				err = errors.Join(err, store.Break(context.Background(), id, h.ID))
			}
			if err != nil {
				w.fail("break: %v", err)
			}
		}
		synctest.Wait()
		time.Sleep(d.Pass)
	}
	for _, net := range nets {
		net.all(nil)
	}
	actors.Wait()
	w.told()
	time.Sleep(2 * time.Minute) // every mark has ended
	for i, c := range clients {
		if ran, err := c.Once(context.Background(), "a", 100*time.Millisecond, fine); !ran || err != nil {
			w.fail("client %d at the end: %v, %v", i, ran, err)
		}
		time.Sleep(time.Second)
		if err := c.Close(); err != nil {
			w.fail("Close: %v", err)
		}
	}
}

func TestOnceUnderRandomPrograms(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		program := rapid.SliceOfN(rapid.Custom(drawDeed), 1, 30).Draw(rt, "program")
		w := &workshop{}
		synctest.Test(t, func(*testing.T) { w.run(program) })
		if len(w.faults) > 0 {
			rt.Fatalf("%q", w.faults)
		}
	})
}
