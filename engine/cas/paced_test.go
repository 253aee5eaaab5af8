package cas_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// paced notes what an engine reports to a store that looks for messages.
type paced struct {
	*castest.Memory
	mu    sync.Mutex
	waits []string
	marks []bool
}

func (p *paced) Waits(client cas.Address, holderID string, ahead int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits = append(p.waits, fmt.Sprint(client.Client, " ", holderID, " ", ahead))
}

func (p *paced) Swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	p.mu.Lock()
	for _, c := range changes {
		p.marks = append(p.marks, c.Marks)
	}
	p.mu.Unlock()
	return p.Memory.Swap(ctx, changes)
}

// A store that looks for messages learns who waits and how far behind, and when a wait has ended.
func TestWaitsAreReported(t *testing.T) {
	p := &paced{Memory: castest.NewMemory()}
	e := cas.New(p, 0)
	l, err := e.Listen(t.Context(), "p", "c", func(engine.Wakeup) {})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	acquire := func(id string) engine.Answer {
		t.Helper()
		a, err := e.Acquire(t.Context(), request(id, time.Minute, true))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	release := func(id string, token uint64) {
		t.Helper()
		r := engine.Release{Resource: request(id, 0, false).Resource, Held: engine.Held{ID: id, Token: token}, Withdraw: token == 0}
		if err := e.Release(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	a := acquire("a.1")
	acquire("b.1")
	acquire("c.1")
	acquire("b.1")
	release("b.1", 0)
	acquire("c.1")
	release("a.1", a.Token) // grants to c.1
	want := []string{"a a.1 -1", "b b.1 0", "c c.1 1", "b b.1 0", "b b.1 -1", "c c.1 0", "a a.1 -1", "c c.1 -1"}
	if !slices.Equal(p.waits, want) {
		t.Errorf("reported %q, want %q", p.waits, want)
	}
}

// A store may keep marks more safely than leases, so it learns which changes are of marks.
func TestMarksAreReported(t *testing.T) {
	p := &paced{Memory: castest.NewMemory()}
	e := cas.New(p, 0)
	r := request("a.1", time.Minute, false)
	a, err := e.Acquire(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	done := engine.Release{Resource: r.Resource, Held: engine.Held{ID: r.ID, Token: a.Token}, Mark: time.Hour}
	if err := e.Release(t.Context(), done); err != nil {
		t.Fatal(err)
	}
	if err := e.Break(t.Context(), r.Resource, engine.Break{ID: engine.MarkID}); err != nil {
		t.Fatal(err)
	}
	if want := []bool{false, true, true}; !slices.Equal(p.marks, want) {
		t.Errorf("reported %v, want %v", p.marks, want)
	}
}
