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

// condName is the resource of the condition "ready" of the mutex "x".
const condName = "x#cond:ready"

// condStep is one line of a program of waiters and signallers.
type condStep struct {
	Do     string
	Client int
	Pick   int           // which of those that wait
	Sleep  time.Duration // after the step
}

// signals is a program in which wake-ups get lost, and nothing else.
type signals []condStep

func drawSignals(t *rapid.T, least int) Script {
	return signals(rapid.SliceOfN(rapid.Custom(func(t *rapid.T) condStep {
		return condStep{
			Do: rapid.SampledFrom([]string{"wait", "wait", "wait", "wait", "signal", "signal", "broadcast",
				"cancel", "drop signals", "heal"}).Draw(t, "do"),
			Client: rapid.IntRange(0, 2).Draw(t, "client"),
			Pick:   rapid.IntRange(0, 7).Draw(t, "pick"),
			Sleep:  rapid.SampledFrom([]time.Duration{0, 0, 300 * time.Millisecond, 1100 * time.Millisecond}).Draw(t, "sleep"),
		}
	}), least, 30).Draw(t, "program"))
}

// lounge runs a program and its model: a line of those that wait.
type lounge struct {
	bench
	line   []int // who waits by the model, first come first
	woken  map[int]bool
	gone   map[int]bool // cancelled
	cancel []context.CancelFunc
	ended  map[int]error // what the waits returned
}

func (r *lounge) mutex(client int) *holdfast.Mutex {
	// A lease must not run out, since nothing here is a fault of the mutex.
	return r.clients[client].Mutex("x")
}

func (r *lounge) cond(client int) *holdfast.Cond { return r.mutex(client).Cond("ready") }

func (r *lounge) wait(client int) {
	id := len(r.cancel)
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.line = append(r.cancel, cancel), append(r.line, id)
	r.actors.Go(func() {
		l, err := r.mutex(client).Lock(context.Background())
		if err == nil {
			r.granted(l)
			r.leaves(l)
			l, err = r.cond(client).Wait(ctx, l)
		}
		if err == nil {
			r.granted(l)
			r.leaves(l)
			err = l.Release(context.Background())
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended[id] = err
	})
}

// stands waits until those who wait by the model do so in the store, all of them
// renewed of late: a signal passes on from one that seems to have died.
func (r *lounge) stands(s condStep) {
	stands := func() bool {
		st := r.snapshot(condName)
		return len(st.Holders) == len(r.line) &&
			!slices.ContainsFunc(st.Holders, func(h engine.Holder) bool { return h.TTL < 1800*time.Millisecond })
	}
	if !r.Settle(stands) && !r.disturbed() {
		r.fail("before or after %+v: the store has %+v, the model %d that wait", s, r.snapshot(condName), len(r.line))
	}
}

func (r *lounge) do(s condStep) {
	switch s.Do {
	case "wait":
		r.wait(s.Client)
	case "signal":
		if err := r.cond(s.Client).Signal(context.Background()); err != nil {
			r.fail("signal: %v", err)
		}
		if len(r.line) > 0 {
			r.woken[r.line[0]], r.line = true, r.line[1:]
		}
	case "broadcast":
		if err := r.cond(s.Client).Broadcast(context.Background()); err != nil {
			r.fail("broadcast: %v", err)
		}
		for _, id := range r.line {
			r.woken[id] = true
		}
		r.line = nil
	case "cancel":
		if len(r.line) > 0 {
			i := s.Pick % len(r.line)
			id := r.line[i]
			r.cancel[id]()
			r.gone[id], r.line = true, slices.Delete(r.line, i, i+1)
		}
	case "drop signals": // and nothing else: the mutex passes on at once
		r.nets[s.Client].Set(func() {
			r.nets[s.Client].OnWake = func(w engine.Wakeup) bool { return w.Kind != engine.WakeBroken }
		})
	case "heal":
		r.nets[s.Client].Set(func() { r.nets[s.Client].OnWake = nil })
	}
	r.stands(s) // who waits now stands in line
	<-time.After(s.Sleep)
	r.stands(s)
}

// compare checks who has returned against the model, when all have had the time
// of a renewal to find out.
func (r *lounge) compare() {
	<-time.After(1100 * time.Millisecond)
	r.Settle(func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.ended) >= len(r.woken)+len(r.gone)
	})
	if r.disturbed() { // a signal may have been given to two
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.cancel {
		err, ended := r.ended[id]
		switch {
		case ended != (r.woken[id] || r.gone[id]):
			r.failing("waiter %d: ended %v (%v), signalled %v, cancelled %v", id, ended, err, r.woken[id], r.gone[id])
		case r.gone[id] && !errors.Is(err, context.Canceled), !r.gone[id] && err != nil:
			r.failing("waiter %d: %v", id, err)
		}
	}
}

// Play checks that signals wake whom the model says, in its order, also if their
// wake-ups get lost; that nobody hangs and nothing is left.
func (p signals) Play(s *Stage) []string {
	r := &lounge{woken: map[int]bool{}, gone: map[int]bool{}, ended: map[int]error{}}
	r.enter(s, 3)
	start := time.Now()
	for _, st := range p {
		r.do(st)
		if time.Since(start) > holdfast.CondPatience/2 || len(r.wrong) > 0 || r.disturbed() {
			break // who waits for longer may return by itself
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
