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

// gathering is one caller of a random program: it takes a set of names, in some
// order, holds them and gives them back.
type gathering struct {
	Do     string
	Client int
	Names  []string
	Wait   time.Duration // before it gives up; 0: never
	Hold   time.Duration
	Sleep  time.Duration // after the step
}

func drawGathering(faults bool) func(t *rapid.T) gathering {
	what := []string{"lock", "lock", "lock", "lock", "try", "give up"}
	if faults {
		what = append(what, "break", "break", "down", "hang", "slow", "lose replies", "heal", "heal")
	}
	return func(t *rapid.T) gathering {
		millis := func(name string, most int) time.Duration {
			return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Millisecond
		}
		names := rapid.Permutation([]string{"a", "b", "c", "d", "e"}).Draw(t, "names")
		return gathering{
			Do:     rapid.SampledFrom(what).Draw(t, "do"),
			Client: rapid.IntRange(0, 2).Draw(t, "client"),
			Names:  names[:rapid.IntRange(1, len(names)).Draw(t, "how many")],
			Wait:   millis("wait", 3000),
			Hold:   millis("hold", 2000),
			Sleep:  rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 50 * time.Millisecond, time.Second}).Draw(t, "sleep"),
		}
	}
}

// crowd runs the callers and watches that what they hold is theirs alone. The
// model is a map from a name to who may act on it.
type crowd struct {
	store   *memory.Engine
	nets    []*faulty
	clients []*holdfast.Client
	callers sync.WaitGroup

	mu      sync.Mutex
	holders map[string][]*holdfast.Lease
	top     map[string]uint64
	broken  []uint64 // tokens that an operator ended: fencing covers those
	faults  []string
}

func (w *crowd) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fmt.Sprintf(format, args...))
}

func (w *crowd) granted(l *holdfast.Lease, names []string) {
	tokens := l.Tokens()
	if len(tokens) != len(names) || l.Token() != tokens[names[0]] {
		w.fail("tokens %v, token %d for %v", tokens, l.Token(), names)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, token := range tokens {
		if l.Err() != nil {
			return
		}
		if slices.Contains(w.broken, token) {
			continue // its client has not heard of it
		}
		if token <= w.top[name] {
			w.faults = append(w.faults, fmt.Sprintf("%s: token %d after %d", name, token, w.top[name]))
		}
		w.top[name] = max(w.top[name], token)
		for _, other := range w.holders[name] {
			if other.Err() == nil && !slices.Contains(w.broken, other.Tokens()[name]) {
				w.faults = append(w.faults, fmt.Sprintf("%s: held by %v and %v", name, other.Tokens(), tokens))
			}
		}
		w.holders[name] = append(w.holders[name], l)
	}
}

func (w *crowd) leaves(l *holdfast.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.holders {
		w.holders[name] = slices.DeleteFunc(w.holders[name], func(o *holdfast.Lease) bool { return o == l })
	}
}

func (w *crowd) act(g gathering, sure bool) {
	m := w.clients[g.Client].Multi(g.Names, holdfast.WithTTL(2*time.Second))
	lock, ctx, cancel := m.Lock, context.Background(), context.CancelFunc(func() {})
	switch g.Do {
	case "try":
		lock = m.TryLock
	case "give up":
		ctx, cancel = context.WithTimeout(ctx, g.Wait)
	default: // nobody holds for more than 2 s: an hour is a deadlock
		ctx, cancel = context.WithTimeout(ctx, time.Hour)
	}
	defer cancel()
	l, err := lock(ctx)
	if err != nil {
		if g.Do == "lock" && sure || !errors.Is(err, holdfast.ErrNotAcquired) {
			w.fail("%s %v: %v", g.Do, g.Names, err)
		}
		return
	}
	w.granted(l, g.Names)
	select {
	case <-time.After(g.Hold):
	case <-l.Context().Done():
		if sure && ctx.Err() == nil {
			w.fail("lost without a fault: %v", l.Err())
		}
	}
	w.leaves(l)
	if err := l.Release(context.Background()); err != nil && sure {
		w.fail("release of %v: %v", g.Names, err)
	}
}

func (w *crowd) breakOne(name string) {
	res := engine.Resource{Prefix: holdfast.DefaultPrefix, Name: name}
	s, err := w.store.Snapshot(context.Background(), res)
	if err != nil || len(s.Holders) == 0 {
		return
	}
	w.mu.Lock()
	for t := s.Holders[0].Token; t <= s.Token; t++ { // with those reserved for hand-offs
		w.broken = append(w.broken, t)
	}
	w.mu.Unlock()
	_ = w.store.Break(context.Background(), res, s.Holders[0].ID)
}

func (w *crowd) do(g gathering, sure bool) {
	synctest.Wait() // all callers have come to rest
	net := w.nets[g.Client]
	switch g.Do {
	case "lock", "try", "give up":
		w.callers.Go(func() { w.act(g, sure) })
	case "break":
		w.breakOne(g.Names[0])
	case "down":
		net.all(down)
	case "hang":
		net.all(hang)
	case "slow":
		net.slow(g.Wait/20, g.Hold/20)
	case "lose replies":
		net.loseReplies()
	case "heal":
		net.all(nil)
	}
	time.Sleep(g.Sleep)
}

// gatherAll returns what went wrong. It is called in a bubble, which also fails
// when a goroutine is left.
func gatherAll(program []gathering, sure bool) []string {
	w := &crowd{store: memory.New(), holders: map[string][]*holdfast.Lease{}, top: map[string]uint64{}}
	for range 3 {
		net := newFaulty()
		net.Engine = w.store
		c, err := holdfast.New(net)
		if err != nil {
			return []string{err.Error()}
		}
		w.nets, w.clients = append(w.nets, net), append(w.clients, c)
	}
	for _, g := range program {
		w.do(g, sure)
	}
	for _, net := range w.nets {
		net.all(nil)
	}
	w.callers.Wait()
	synctest.Wait()
	time.Sleep(10 * time.Second) // what was given up ends by its TTL
	for i := range w.clients {   // everything drains
		w.act(gathering{Do: "lock", Client: i, Names: []string{"e", "a", "c", "b", "d"}}, true)
	}
	for _, c := range w.clients {
		if err := c.Close(); err != nil {
			w.fail("Close: %v", err)
		}
	}
	for name := range w.top {
		s, err := w.store.Snapshot(context.Background(), engine.Resource{Prefix: holdfast.DefaultPrefix, Name: name})
		if err != nil || len(s.Holders)+len(s.Waiters) > 0 {
			w.fail("left in the store: %+v, %v", s, err)
		}
	}
	return w.faults
}

// Any sets of names in any order: no two hold one name, nobody waits for ever,
// nothing is left.
func TestMultiUnderRandomPrograms(t *testing.T) {
	for name, faults := range map[string]bool{"calm": false, "faults": true} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				program := rapid.SliceOfN(rapid.Custom(drawGathering(faults)), 1, 40).Draw(rt, "program")
				var wrong []string
				synctest.Test(t, func(*testing.T) { wrong = gatherAll(program, !faults) })
				if len(wrong) > 0 {
					rt.Fatalf("%q", wrong)
				}
			})
		})
	}
}
