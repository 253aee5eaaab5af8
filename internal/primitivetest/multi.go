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

// gathering is one caller of a random program: it takes a set of names, in some
// order, holds them and gives them back.
type gathering struct {
	step
	Names []string
}

// gatherings is a program of callers that take several names at once. A calm one
// has no faults, so that every call is sure to succeed.
type gatherings struct {
	Calm       bool
	Gatherings []gathering
}

func drawGatherings(faults bool) drawer {
	what := []string{"lock", "lock", "lock", "lock", "lock", "lock", "lock", "lock", "try", "give up"}
	if faults {
		what = append(what, "break", "down", "hang", "slow", "lose replies", "heal", "heal", "heal", "heal")
	}
	return func(t *rapid.T, least int) Script {
		return gatherings{!faults, rapid.SliceOfN(rapid.Custom(func(t *rapid.T) gathering {
			names := rapid.Permutation([]string{"a", "b", "c", "d", "e"}).Draw(t, "names")
			return gathering{
				step: step{
					Do:     rapid.SampledFrom(what).Draw(t, "do"),
					Client: rapid.IntRange(0, 2).Draw(t, "client"),
					Wait:   drawWait(t),
					Hold:   drawHold(t),
					Sleep:  rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 50 * time.Millisecond, time.Second, 3 * time.Second}).Draw(t, "sleep"),
				},
				Names: names[:rapid.IntRange(1, len(names)).Draw(t, "how many")],
			}
		}), least, 40).Draw(t, "program")}
	}
}

// crowd runs the callers and watches that what they hold is theirs alone. The
// model is a map from a name to who may act on it.
type crowd struct {
	world
	sure    bool
	holders map[string][]*holdfast.Lease
	top     map[string]uint64
	void    []uint64 // tokens that an operator ended: fencing covers those
}

func (w *crowd) granted(l *holdfast.Lease, names []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	tokens := l.Tokens()
	if len(tokens) != len(names) || l.Token() != tokens[names[0]] {
		w.failing("tokens %v, token %d for %v", tokens, l.Token(), names)
	}
	for name, token := range tokens {
		if l.Err() != nil {
			return
		}
		if slices.Contains(w.void, token) {
			continue // its client has not heard of it
		}
		if token <= w.top[name] {
			w.failing("%s: token %d after %d", name, token, w.top[name])
		}
		w.top[name] = max(w.top[name], token)
		for _, other := range w.holders[name] {
			if !slices.Contains(w.void, other.Tokens()[name]) && other.Err() == nil && l.Err() == nil {
				w.failing("%s: held by %v and %v", name, other.Tokens(), tokens)
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

// wait is for how long a caller goes on. Nobody holds for more than 6 s: not to
// get what it wants in an hour, or half a minute of real time, is a deadlock.
func (w *crowd) wait(g gathering) time.Duration {
	switch {
	case g.Do == "give up":
		return w.span(g.Wait)
	case w.virtual():
		return time.Hour
	}
	return 30 * time.Second
}

func (w *crowd) act(g gathering) {
	ttl := w.ttl(usualTTL)
	if w.sure {
		ttl = holdfast.WithTTL(2 * orderTTL)
	}
	m := w.clients[g.Client].Multi(g.Names, ttl)
	lock := m.Lock
	if g.Do == "try" {
		lock = m.TryLock
	}
	ctx, cancel := context.WithTimeout(context.Background(), w.wait(g))
	defer cancel()
	l, err := lock(ctx)
	if err != nil {
		hangs := g.Do == "lock" && errors.Is(err, context.DeadlineExceeded)
		if hangs || g.Do == "lock" && w.calm() || !w.refused(err, g.Client, w.lasting(usualTTL)) {
			w.fail("%s %v: %v", g.Do, g.Names, err)
		}
		return
	}
	w.granted(l, g.Names)
	select {
	case <-time.After(w.span(g.Hold)):
	case <-l.Context().Done():
		if w.calm() && ctx.Err() == nil {
			w.fail("lost without a fault: %v", l.Err())
		}
	}
	w.leaves(l)
	if err := l.Release(context.Background()); err != nil && w.calm() {
		w.fail("release of %v: %v", g.Names, err)
	}
}

// calm tells whether there is no fault, so that no lease may be lost.
func (w *crowd) calm() bool { return w.sure && !w.disturbed() }

func (w *crowd) breakOne(name string) {
	s := w.snapshot(name)
	if len(s.Holders) == 0 {
		return
	}
	w.mu.Lock()
	for t := s.Holders[0].Token; t <= s.Token; t++ { // with those reserved for hand-offs
		w.void = append(w.void, t)
	}
	w.mu.Unlock()
	_ = w.Store.Break(context.Background(), s.Resource, engine.Break{ID: s.Holders[0].ID}) // it may have gone meanwhile
}

func (w *crowd) do(g gathering) {
	w.Rest()
	switch g.Do {
	case "lock", "try", "give up":
		w.actors.Go(func() { w.act(g) })
	case "break":
		w.breakOne(g.Names[0])
	default:
		w.weather(g.step)
	}
	w.pass(g.Sleep)
}

// Play checks for any sets of names in any order that no two hold one name, that
// the tokens of each increase, that nobody waits for ever and nothing is left.
func (p gatherings) Play(s *Stage) []string {
	w := &crowd{sure: p.Calm, holders: map[string][]*holdfast.Lease{}, top: map[string]uint64{}}
	w.enter(s, 3)
	for _, g := range p.Gatherings {
		w.do(g)
	}
	w.heal()
	w.actors.Wait()
	names := []string{"e", "a", "c", "b", "d"}
	if w.virtual() {
		w.pass(10 * time.Second) // what was given up ends by its TTL
	}
	w.sure = true
	for i := range w.clients { // everything drains
		w.act(gathering{step{Do: "lock", Client: i}, names})
	}
	return w.close(names...)
}
