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

// condStep is one line of a program of waiters and signallers.
type condStep struct {
	Do     string
	Client int
	Pick   int           // which of the waiters
	Sleep  time.Duration // after the step
}

// condProgram is a program whose only faults are lost wake-ups.
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

// condRun runs a program and its model: the waiters in order.
type condRun struct {
	exclusive
	waiting   []int // the waiters of the model, first come first
	woken     map[int]bool
	cancelled map[int]bool // cancelled
	cancel    []context.CancelFunc
	ended     map[int]error // what the waits returned
}

func (r *condRun) mutex(client int) *holdfast.Mutex {
	// A lease must not run out, since nothing here is a fault of the mutex.
	return r.clients[client].Mutex("x")
}

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

// awaitWaiters waits until the store has the waiters of the model, all renewed lately: a
// signal also wakes the waiter behind one that seems dead.
func (r *condRun) awaitWaiters(s condStep) {
	same := func() bool {
		st := r.snapshot(condName)
		return len(st.Holders) == len(r.waiting) &&
			!slices.ContainsFunc(st.Holders, func(h engine.Holder) bool { return h.TTL < 1800*time.Millisecond })
	}
	if !r.Eventually(same) && !r.disturbed() {
		r.fail("before or after %+v: the store has %+v, the model %d waiters", s, r.snapshot(condName), len(r.waiting))
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
	case "drop signals": // and nothing else: the mutex is handed off at once
		r.nets[s.Client].Set(func() {
			r.nets[s.Client].OnWake = func(w engine.Wakeup) bool { return w.Kind != engine.WakeBroken }
		})
	case "heal":
		r.nets[s.Client].Set(func() { r.nets[s.Client].OnWake = nil })
	}
	r.awaitWaiters(s) // the waiters are in the queue now
	<-time.After(s.Sleep)
	r.awaitWaiters(s)
}

// compare checks the waits that have returned against the model, after the time of a
// renewal.
func (r *condRun) compare() {
	<-time.After(1100 * time.Millisecond)
	r.Eventually(func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.ended) >= len(r.woken)+len(r.cancelled)
	})
	if r.disturbed() { // a signal may have woken two waiters
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

// Play checks that signals wake the waiters of the model in its order, also if their
// wake-ups get lost, that no wait hangs and that nothing is left.
func (p condProgram) Play(s *Environment) []string {
	r := &condRun{woken: map[int]bool{}, cancelled: map[int]bool{}, ended: map[int]error{}}
	r.openClients(s, 3)
	start := time.Now()
	for _, st := range p {
		r.do(st)
		if time.Since(start) > holdfast.CondTimeout/2 || len(r.wrong) > 0 || r.disturbed() {
			break // a longer wait may return by itself
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
