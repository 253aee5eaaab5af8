package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// errand is one caller of a program with faults, or one fault.
type errand struct {
	Do     string
	Client int
	Weight int
	Demote bool
	Wait   time.Duration // before it gives up
	Hold   time.Duration
	Sleep  time.Duration // after the step
}

func drawErrand(weights []int) *rapid.Generator[errand] {
	return rapid.Custom(func(t *rapid.T) errand {
		millis := func(name string, most int) time.Duration {
			return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Millisecond
		}
		return errand{
			Do: rapid.SampledFrom([]string{"lock", "lock", "lock", "lock", "lock", "try", "break", "down", "hang", "slow",
				"lose replies", "drop wake-ups", "heal", "heal"}).Draw(t, "do"),
			Client: rapid.IntRange(0, 2).Draw(t, "client"),
			Weight: rapid.SampledFrom(weights).Draw(t, "weight"),
			Demote: rapid.Bool().Draw(t, "demote"),
			Wait:   millis("wait", 8000),
			Hold:   millis("hold", 3000),
			Sleep:  rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 30 * time.Millisecond, time.Second}).Draw(t, "sleep"),
		}
	})
}

// part is what a caller believes to hold.
type part struct {
	lease  *holdfast.Lease
	weight int
}

// market runs errands and watches that open trust windows never add up to more
// than the capacity.
type market struct {
	sharing
	store   *memory.Engine
	nets    []*faulty
	clients []*holdfast.Client
	callers sync.WaitGroup

	mu     sync.Mutex
	parts  []*part
	broken []string // by an operator; fencing covers those until they hear of it
	tokens map[uint64]bool
	faults []string
}

// failing needs the mutex.
func (w *market) failing(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

func (w *market) granted(p *part) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tokens[p.lease.Token()] {
		w.failing("token %d is given twice", p.lease.Token())
	}
	w.tokens[p.lease.Token()] = true
	w.parts = append(w.parts, p)
	used := 0
	for _, other := range w.parts {
		if other.lease.Err() == nil && !slices.Contains(w.broken, other.lease.HolderID()) {
			used += other.weight
		}
	}
	if used > w.capacity {
		w.failing("%d of %d are held when token %d is granted for %d", used, w.capacity, p.lease.Token(), p.weight)
	}
}

// becomesReader: from the call on the writer counts as a reader.
func (w *market) becomesReader(p *part) {
	w.mu.Lock()
	p.weight = 1
	w.mu.Unlock()
	err := p.lease.Demote(context.Background())
	if err == nil || errors.Is(err, holdfast.ErrLost) || errors.Is(err, holdfast.ErrUnavailable) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing("Demote: %v", err)
}

func (w *market) act(e errand) {
	a := w.open(w.clients[e.Client])
	ctx, cancel := context.WithTimeout(context.Background(), e.Wait)
	defer cancel()
	lock := a.lock
	if e.Do == "try" {
		lock = a.try
	}
	l, err := lock(ctx, e.Weight)
	if err != nil {
		if !errors.Is(err, holdfast.ErrNotAcquired) {
			w.mu.Lock()
			w.failing("%s: %v", e.Do, err)
			w.mu.Unlock()
		}
		return
	}
	p := &part{l, e.Weight}
	w.granted(p)
	if e.Demote && e.Weight == everything {
		w.becomesReader(p)
	}
	select {
	case <-time.After(e.Hold):
	case <-l.Context().Done():
	}
	w.mu.Lock()
	w.parts = slices.DeleteFunc(w.parts, func(o *part) bool { return o == p })
	w.mu.Unlock()
	_ = l.Release(ctx) // lost, unreachable or done: all may be
}

func (w *market) do(e errand) {
	synctest.Wait() // all callers have come to rest
	net := w.nets[e.Client]
	switch e.Do {
	case "lock", "try":
		w.callers.Go(func() { w.act(e) })
	case "break":
		res := engine.Resource{Prefix: holdfast.DefaultPrefix, Name: "x"}
		s, err := w.store.Snapshot(context.Background(), res)
		if err != nil || len(s.Holders) == 0 {
			break
		}
		id := s.Holders[len(s.Holders)/2].ID
		w.mu.Lock()
		w.broken = append(w.broken, id)
		w.mu.Unlock()
		_ = w.store.Break(context.Background(), res, id)
	case "down":
		net.all(down)
	case "hang":
		net.all(hang)
	case "slow":
		net.slow(e.Wait/20, e.Hold/3)
	case "lose replies":
		net.loseReplies()
	case "drop wake-ups":
		net.set(func() { net.wake = func(engine.Wakeup) bool { return false } })
	case "heal":
		net.all(nil)
		net.set(func() { net.wake = nil })
	}
	time.Sleep(e.Sleep) // virtual
}

// run returns what went wrong. It is called in a bubble.
func (w *market) run(program []errand) []string {
	w.store, w.tokens = memory.New(), map[uint64]bool{}
	for range 3 {
		net := newFaulty()
		net.Engine = w.store
		c, err := holdfast.New(net)
		if err != nil {
			return []string{err.Error()}
		}
		w.nets, w.clients = append(w.nets, net), append(w.clients, c)
	}
	for _, e := range program {
		w.do(e)
	}
	for i := range w.nets {
		w.do(errand{Do: "heal", Client: i})
	}
	w.callers.Wait()
	// Nothing is lost for good: all of it can be had again.
	for i := range w.clients {
		w.act(errand{Do: "lock", Client: i, Weight: w.capacity, Wait: 10 * time.Second})
	}
	if len(w.tokens) < len(w.clients) {
		w.failing("only %d grants", len(w.tokens))
	}
	for _, c := range w.clients {
		if err := c.Close(); err != nil {
			w.failing("Close: %v", err)
		}
	}
	time.Sleep(time.Second) // virtual: what is still under way arrives
	synctest.Wait()
	s, err := w.store.Snapshot(context.Background(), engine.Resource{Prefix: holdfast.DefaultPrefix, Name: "x"})
	if err != nil || len(s.Holders)+len(s.Waiters) > 0 {
		w.failing("left in the store: %+v, %v", s, err)
	}
	return w.faults
}

// The capacity is never exceeded, no reader is in with a writer, and nothing is
// lost for good, whatever the network does.
func TestSharedUnderFaults(t *testing.T) {
	for name, sort := range sharings {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				program := rapid.SliceOfN(drawErrand(sort.weights), 1, 40).Draw(rt, "program")
				var faults []string
				synctest.Test(t, func(*testing.T) { faults = (&market{sharing: sort}).run(program) })
				if len(faults) > 0 {
					rt.Fatalf("%q", faults)
				}
			})
		})
	}
}
