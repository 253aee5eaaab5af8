package primitivetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast"
)

// errand is one caller of a program with faults, or one fault.
type errand struct {
	step
	Weight int
	Demote bool
}

// errands is a program with faults on a shared resource.
type errands struct {
	sharing
	Errands []errand
}

func drawMarket(sort sharing) drawer {
	return func(t *rapid.T, least int) Script {
		return errands{sort, rapid.SliceOfN(rapid.Custom(func(t *rapid.T) errand {
			e := errand{step: drawStep(t)}
			e.Weight = rapid.SampledFrom(sort.weights).Draw(t, "weight")
			e.Demote = rapid.Bool().Draw(t, "demote")
			if e.Do == "break waiter" {
				e.Do = "heal"
			}
			return e
		}), least, 40).Draw(t, "program")}
	}
}

// part is what a caller believes to hold.
type part struct {
	lease  *holdfast.Lease
	weight int
}

// market runs errands and watches that open trust windows never add up to more
// than the capacity.
type market struct {
	world
	sharing
	parts  []*part
	tokens map[uint64]bool
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
	for _, other := range w.parts { // p is the last: it is still open after all others were looked at
		if !w.isBroken(other.lease) && other.lease.Err() == nil {
			used += other.weight
		} else if other == p {
			return
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
	if err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrUnavailable) {
		w.fail("Demote: %v", err)
	}
}

func (w *market) act(e errand) {
	a := w.open(w.clients[e.Client], w.ttl(usualTTL))
	lock := a.lock
	if e.Do == "try" {
		lock = a.try
	}
	var l *holdfast.Lease
	err := w.in(e.step, func(ctx context.Context) (err error) {
		l, err = lock(ctx, e.Weight)
		return err
	})
	if err != nil {
		if !w.refused(err, e.Client, w.lasting(usualTTL)) {
			w.fail("%s: %v", e.Do, err)
		}
		return
	}
	p := &part{l, e.Weight}
	w.granted(p)
	if e.Demote && e.Weight == everything {
		w.becomesReader(p)
	}
	select {
	case <-time.After(w.span(e.Hold)):
	case <-l.Done():
	}
	w.mu.Lock()
	w.parts = slices.DeleteFunc(w.parts, func(o *part) bool { return o == p })
	w.mu.Unlock()
	_ = l.Release(context.Background()) // lost, unreachable or done: all may be
}

func (w *market) do(e errand) {
	w.Rest()
	switch e.Do {
	case "lock", "try":
		w.actors.Go(func() { w.act(e) })
	case "break holder":
		w.breaks("x", true)
	default:
		w.weather(e.step)
	}
	w.pass(e.Sleep)
}

// Play checks that the capacity is never exceeded, that no reader is in with a
// writer, that no token is given twice, and that nothing is lost for good,
// whatever the network does.
func (p errands) Play(s *Stage) []string {
	w := &market{sharing: p.sharing, tokens: map[uint64]bool{}}
	w.enter(s, 3)
	for _, e := range p.Errands {
		w.do(e)
	}
	w.heal()
	w.actors.Wait()
	before := len(w.tokens)
	for i := range w.clients { // all of it can be had again
		w.act(errand{step: step{Do: "lock", Client: i, Wait: time.Duration(w.Pace) * 10 * time.Second}, Weight: w.capacity})
	}
	if n := len(w.tokens) - before; n != len(w.clients) {
		w.fail("at the end only %d of %d got all of it", n, len(w.clients))
	}
	return w.close("x")
}
