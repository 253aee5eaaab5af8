package primitivetest

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/random"
)

// sharedStep is one step of a sharedProgram: a call or a fault.
type sharedStep struct {
	step
	Weight int
	Demote bool
}

// sharedProgram is a script with faults on a shared resource.
type sharedProgram struct {
	sharedKind
	Steps []sharedStep
}

func drawShared(kind sharedKind) drawer {
	return func(t *random.T, least int) Script {
		return sharedProgram{kind, random.SliceOfN(random.Custom(func(t *random.T) sharedStep {
			e := sharedStep{step: drawStep(t)}
			e.Weight = random.SampledFrom(kind.weights).Draw(t, "weight")
			e.Demote = random.Bool().Draw(t, "demote")
			if e.Do == "break waiter" {
				e.Do = "heal"
			}
			return e
		}), least, 40).Draw(t, "program")}
	}
}

// share is a lease of a caller, and the weight that the caller uses.
type share struct {
	lease  *holdfast.Lease
	weight int
}

// sharedRun runs a sharedProgram and checks that open trust windows never add up to more
// than the capacity.
type sharedRun struct {
	simulation
	sharedKind
	shares []*share
	tokens map[uint64]bool
}

func (w *sharedRun) granted(p *share) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.lease.Token() == 0 || w.tokens[p.lease.Token()] {
		w.failing("token %d is none, or granted twice", p.lease.Token())
	}
	w.tokens[p.lease.Token()] = true
	w.shares = append(w.shares, p)
	used := 0
	for _, other := range w.shares { // p is the last: it is still open after all others were checked
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

// demote demotes a writer, which counts as a reader from the call on.
func (w *sharedRun) demote(p *share) {
	w.mu.Lock()
	p.weight = 1
	w.mu.Unlock()
	err := p.lease.Demote(context.Background())
	if err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrUnavailable) {
		w.fail("Demote: %v", err)
	}
}

func (w *sharedRun) act(e sharedStep) {
	a := w.open(w.clients[e.Client], w.ttl(usualTTL))
	lock := a.lock
	if e.Do == "try" {
		lock = a.try
	}
	var l *holdfast.Lease
	err := w.bounded(e.step, func(ctx context.Context) (err error) {
		l, err = lock(ctx, e.Weight)
		return err
	})
	if err != nil {
		if !w.refused(err, e.Client, w.ttlOf(usualTTL)) {
			w.fail("%s: %v", e.Do, err)
		}
		return
	}
	p := &share{l, e.Weight}
	w.granted(p)
	if e.Demote && e.Weight == writerWeight {
		w.demote(p)
	}
	select {
	case <-time.After(w.span(e.Hold)):
	case <-l.Done():
	}
	w.mu.Lock()
	w.shares = slices.DeleteFunc(w.shares, func(o *share) bool { return o == p })
	w.mu.Unlock()
	_ = l.Release(context.Background()) // the lease may be lost, or the store unreachable
}

func (w *sharedRun) do(e sharedStep) {
	w.Idle()
	switch e.Do {
	case "lock", "try":
		w.actors.Go(func() { w.act(e) })
	case "break holder":
		w.breakLease("x", true)
	default:
		w.setNetwork(e.step)
	}
	w.elapse(e.Sleep)
}

// Play checks that, whatever the network does, the capacity is never exceeded, no reader
// holds beside a writer, no token is granted twice and no capacity is lost for good.
func (p sharedProgram) Play(s *Environment) []string {
	w := &sharedRun{sharedKind: p.sharedKind, tokens: map[uint64]bool{}}
	w.openClients(s, 3)
	for _, e := range p.Steps {
		w.do(e)
	}
	w.healAll()
	w.actors.Wait()
	before := len(w.tokens)
	for i := range w.clients { // the whole capacity can be acquired again
		w.act(sharedStep{step: step{Do: "lock", Client: i, Wait: time.Duration(w.Pace) * 10 * time.Second}, Weight: w.capacity})
	}
	if n := len(w.tokens) - before; n != len(w.clients) {
		w.fail("at the end only %d of %d acquired the whole capacity", n, len(w.clients))
	}
	return w.close("x")
}
