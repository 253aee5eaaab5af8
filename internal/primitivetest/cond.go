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

// condName is the resource of the condition "ready" of the mutex "x".
const condName = "x#cond:ready"

// condStep is one step of a condProgram.
type condStep struct {
	Do     string
	Client int
	Pick   int           // of the waiters, modulo their number
	Sleep  time.Duration // after the step
}

// condProgram is a script of waits and signals. Its only faults are lost wake-ups.
type condProgram []condStep

func drawCond(t *random.T, least int) Script {
	return condProgram(random.SliceOfN(random.Custom(func(t *random.T) condStep {
		return condStep{
			Do: random.SampledFrom([]string{"wait", "wait", "wait", "wait", "signal", "signal", "broadcast",
				"cancel", "drop signals", "heal"}).Draw(t, "do"),
			Client: random.IntRange(0, 2).Draw(t, "client"),
			Pick:   random.IntRange(0, 7).Draw(t, "pick"),
			Sleep:  random.SampledFrom([]time.Duration{0, 0, 300 * time.Millisecond, 1100 * time.Millisecond}).Draw(t, "sleep"),
		}
	}), least, 30).Draw(t, "program"))
}

// condRun runs a condProgram and its model: the waiters in order, by number.
type condRun struct {
	exclusive
	waiting   []int        // in the order of their waits
	woken     map[int]bool // signalled in the model
	cancelled map[int]bool
	cancel    []context.CancelFunc
	ended     map[int]error // results of the waits that have returned
}

// mutex has the default TTL in every environment, since its leases must not expire.
func (r *condRun) mutex(client int) *holdfast.Mutex { return r.clients[client].Mutex("x") }

func (r *condRun) cond(client int) *holdfast.Cond { return r.mutex(client).Cond("ready") }

func (r *condRun) wait(client int) {
	id := len(r.cancel)
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.waiting = append(r.cancel, cancel), append(r.waiting, id)
	r.actors.Go(func() {
		l, err := r.mutex(client).Lock(context.Background())
		if err == nil {
			r.granted(l)
			r.released(l)
			l, err = r.cond(client).Wait(ctx, l)
		}
		if err == nil {
			r.granted(l)
			r.released(l)
			err = l.Release(context.Background())
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended[id] = err
	})
}

// awaitWaiters waits until the store has as many waiters as the model, all renewed lately: a
// signal to a waiter that may be dead also wakes the next one.
func (r *condRun) awaitWaiters(s condStep) {
	same := func() bool {
		st := r.snapshot(condName)
		return len(st.Holders) == len(r.waiting) &&
			!slices.ContainsFunc(st.Holders, func(h engine.Holder) bool { return h.TTL < 1800*time.Millisecond })
	}
	if !r.Eventually(same) {
		r.failCalm("before or after %+v: the store has %+v, the model %d waiters", s, r.snapshot(condName), len(r.waiting))
	}
}

func (r *condRun) do(s condStep) {
	switch s.Do {
	case "wait":
		r.wait(s.Client)
	case "signal":
		if err := r.cond(s.Client).Signal(context.Background()); err != nil {
			r.fail("signal: %v", err)
		}
		if len(r.waiting) > 0 {
			r.woken[r.waiting[0]], r.waiting = true, r.waiting[1:]
		}
	case "broadcast":
		if err := r.cond(s.Client).Broadcast(context.Background()); err != nil {
			r.fail("broadcast: %v", err)
		}
		for _, id := range r.waiting {
			r.woken[id] = true
		}
		r.waiting = nil
	case "cancel":
		if len(r.waiting) > 0 {
			i := s.Pick % len(r.waiting)
			id := r.waiting[i]
			r.cancel[id]()
			r.cancelled[id], r.waiting = true, slices.Delete(r.waiting, i, i+1)
		}
	case "drop signals": // but not the grants of the mutex
		r.nets[s.Client].Set(func() {
			r.nets[s.Client].OnWake = func(w engine.Wakeup) bool { return w.Kind != engine.WakeBroken }
		})
	case "heal":
		r.nets[s.Client].Set(func() { r.nets[s.Client].OnWake = nil })
	}
	r.awaitWaiters(s)
	<-time.After(s.Sleep)
	r.awaitWaiters(s)
}

// compare checks which waits have returned. It first waits for a renewal, by which a waiter
// finds a signal whose wake-up was lost.
func (r *condRun) compare() {
	<-time.After(1100 * time.Millisecond)
	r.Eventually(func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.ended) >= len(r.woken)+len(r.cancelled)
	})
	if r.disturbed() { // a signal may have woken two waiters
		r.drop("which waits have returned was not compared")
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.cancel {
		err, ended := r.ended[id]
		switch {
		case ended != (r.woken[id] || r.cancelled[id]):
			r.failing("waiter %d: ended %v (%v), signalled %v, cancelled %v", id, ended, err, r.woken[id], r.cancelled[id])
		case r.cancelled[id] && !errors.Is(err, context.Canceled), !r.cancelled[id] && err != nil:
			r.failing("waiter %d: %v", id, err)
		}
	}
}

// Play checks that signals wake the waiters in the order of the model even if wake-ups are
// lost, that no wait hangs, and that nothing is left in the store.
func (p condProgram) Play(s *Environment) []string {
	r := &condRun{woken: map[int]bool{}, cancelled: map[int]bool{}, ended: map[int]error{}}
	r.openClients(s, 3)
	start := time.Now()
	for _, st := range p {
		r.do(st)
		if time.Since(start) > holdfast.CondTimeout/2 || len(r.wrong) > 0 || r.disturbed() {
			break // after the timeout waits return without a signal
		}
	}
	r.compare()
	r.do(condStep{Do: "broadcast"})
	r.compare()
	for _, cancel := range r.cancel {
		cancel()
	}
	r.actors.Wait()
	return r.close("x", condName)
}
