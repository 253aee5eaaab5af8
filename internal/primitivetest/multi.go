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

// multiStep is one step of a multiProgram: a caller, which acquires several names in some
// order, holds them and releases them, or a fault.
type multiStep struct {
	step
	Names []string
}

// multiProgram is a script of callers that acquire several names at once. If it is calm, it
// has no faults, and every call must succeed.
type multiProgram struct {
	Calm  bool
	Steps []multiStep
}

func drawMulti(faults bool) drawer {
	what := []string{"lock", "lock", "lock", "lock", "lock", "lock", "lock", "lock", "try", "withdraw"}
	if faults {
		what = append(what, "break", "down", "hang", "slow", "lose replies", "heal", "heal", "heal", "heal")
	}
	return func(t *random.T, least int) Script {
		return multiProgram{!faults, random.SliceOfN(random.Custom(func(t *random.T) multiStep {
			names := random.Permutation([]string{"a", "b", "c", "d", "e"}).Draw(t, "names")
			return multiStep{
				step: step{
					Do:     random.SampledFrom(what).Draw(t, "do"),
					Client: random.IntRange(0, 2).Draw(t, "client"),
					Wait:   drawWait(t),
					Hold:   drawHold(t),
					Sleep:  random.SampledFrom([]time.Duration{0, 0, time.Millisecond, 50 * time.Millisecond, time.Second, 3 * time.Second}).Draw(t, "sleep"),
				},
				Names: names[:random.IntRange(1, len(names)).Draw(t, "how many")],
			}
		}), least, 40).Draw(t, "program")}
	}
}

// multiRun runs the callers and checks that no two hold one name. The model is a map from
// a name to its holders.
type multiRun struct {
	simulation
	calm         bool
	holders      map[string][]*holdfast.Lease
	top          map[string]uint64
	brokenTokens []uint64 // tokens of leases broken by an operator: only fencing is promised for them
}

func (w *multiRun) granted(l *holdfast.Lease, names []string) {
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
		if slices.Contains(w.brokenTokens, token) {
			continue // its client has not received the break
		}
		if token <= w.top[name] {
			w.failing("%s: token %d after %d", name, token, w.top[name])
		}
		w.top[name] = max(w.top[name], token)
		for _, other := range w.holders[name] {
			if !slices.Contains(w.brokenTokens, other.Tokens()[name]) && other.Err() == nil && l.Err() == nil {
				w.failing("%s: held by %v and %v", name, other.Tokens(), tokens)
			}
		}
		w.holders[name] = append(w.holders[name], l)
	}
}

func (w *multiRun) released(l *holdfast.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.holders {
		w.holders[name] = slices.DeleteFunc(w.holders[name], func(o *holdfast.Lease) bool { return o == l })
	}
}

// wait returns the timeout of a call. No caller holds for more than 6 s, so a call that waits
// for an hour, or for half a minute of real time, is in a deadlock.
func (w *multiRun) wait(g multiStep) time.Duration {
	switch {
	case g.Do == "withdraw":
		return w.span(g.Wait)
	case w.virtual():
		return time.Hour
	}
	return 30 * time.Second
}

func (w *multiRun) act(g multiStep) {
	ttl := w.ttl(usualTTL)
	if w.calm {
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
		if hangs || !w.refused(err, g.Client, w.ttlOf(usualTTL)) {
			w.fail("%s %v: %v", g.Do, g.Names, err)
		} else if g.Do == "lock" && w.calm {
			w.failCalm("%s %v: %v", g.Do, g.Names, err)
		}
		return
	}
	w.granted(l, g.Names)
	select {
	case <-time.After(w.span(g.Hold)):
	case <-l.Context().Done():
		if w.calm && ctx.Err() == nil {
			w.failCalm("lost without a fault: %v", l.Err())
		}
	}
	w.released(l)
	if err := l.Release(context.Background()); err != nil && w.calm {
		w.failCalm("release of %v: %v", g.Names, err)
	}
}

func (w *multiRun) breakOne(name string) {
	s := w.snapshot(name)
	if len(s.Holders) == 0 {
		return
	}
	w.mu.Lock()
	for t := s.Holders[0].Token; t <= s.Token; t++ { // with those reserved for hand-offs
		w.brokenTokens = append(w.brokenTokens, t)
	}
	w.mu.Unlock()
	_ = w.Store.Break(context.Background(), s.Resource, engine.Break{ID: s.Holders[0].ID}) // the lease may have ended meanwhile
}

func (w *multiRun) do(g multiStep) {
	w.Idle()
	switch g.Do {
	case "lock", "try", "withdraw":
		w.actors.Go(func() { w.act(g) })
	case "break":
		w.breakOne(g.Names[0])
	default:
		w.setNetwork(g.step)
	}
	w.elapse(g.Sleep)
}

// Play checks for any sets of names in any order that no two callers hold the same name, that
// the tokens of each name increase, that there is no deadlock, and that nothing is left.
func (p multiProgram) Play(s *Environment) []string {
	w := &multiRun{calm: p.Calm, holders: map[string][]*holdfast.Lease{}, top: map[string]uint64{}}
	w.openClients(s, 3)
	for _, g := range p.Steps {
		w.do(g)
	}
	w.healAll()
	w.actors.Wait()
	names := []string{"e", "a", "c", "b", "d"}
	if w.virtual() {
		w.elapse(10 * time.Second) // attempts whose withdrawal was lost expire
	}
	w.calm = true
	for i := range w.clients { // all names can be acquired again
		w.act(multiStep{step{Do: "lock", Client: i}, names})
	}
	return w.close(names...)
}
