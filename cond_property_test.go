package holdfast_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// condStep is one line of a program of waiters and signallers.
type condStep struct {
	Do     string
	Client int
	Pick   int           // which of those that wait
	Sleep  time.Duration // after the step
}

func drawCondStep(t *rapid.T) condStep {
	return condStep{
		Do: rapid.SampledFrom([]string{"wait", "wait", "wait", "wait", "signal", "signal", "broadcast",
			"cancel", "drop signals", "heal"}).Draw(t, "do"),
		Client: rapid.IntRange(0, 2).Draw(t, "client"),
		Pick:   rapid.IntRange(0, 7).Draw(t, "pick"),
		Sleep:  rapid.SampledFrom([]time.Duration{0, 0, 300 * time.Millisecond, 1100 * time.Millisecond}).Draw(t, "sleep"),
	}
}

// condRun runs a program and its model: a line of those that wait.
type condRun struct {
	world
	line   []int // who waits by the model, first come first
	woken  map[int]bool
	gone   map[int]bool // cancelled
	cancel []context.CancelFunc
	ended  map[int]error // what the waits returned
}

func (r *condRun) cond(client int) *holdfast.Cond { return r.clients[client].Mutex("x").Cond("ready") }

func (r *condRun) wait(client int) {
	id := len(r.cancel)
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.line = append(r.cancel, cancel), append(r.line, id)
	r.actors.Go(func() {
		l, err := r.clients[client].Mutex("x").Lock(context.Background())
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

func (r *condRun) do(s condStep) {
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
		r.nets[s.Client].set(func() {
			r.nets[s.Client].wake = func(w engine.Wakeup) bool { return w.Kind != engine.WakeBroken }
		})
	case "heal":
		r.nets[s.Client].set(func() { r.nets[s.Client].wake = nil })
	}
	synctest.Wait() // who waits now stands in line
	time.Sleep(s.Sleep)
}

// compare checks who has returned against the model, when all have had the time
// of a renewal to find out.
func (r *condRun) compare() {
	time.Sleep(1100 * time.Millisecond)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.cancel {
		err, ended := r.ended[id]
		switch {
		case ended != (r.woken[id] || r.gone[id]):
			r.fail("waiter %d: ended %v (%v), signalled %v, cancelled %v", id, ended, err, r.woken[id], r.gone[id])
		case r.gone[id] && !errors.Is(err, context.Canceled), !r.gone[id] && err != nil:
			r.fail("waiter %d: %v", id, err)
		}
	}
}

func runCond(program []condStep) []string {
	r := &condRun{world: world{store: memory.New()}, woken: map[int]bool{}, gone: map[int]bool{}, ended: map[int]error{}}
	for range 3 {
		net := newFaulty()
		net.Engine = r.store
		c, err := holdfast.New(net)
		if err != nil {
			return []string{err.Error()}
		}
		r.nets, r.clients = append(r.nets, net), append(r.clients, c)
	}
	start := time.Now()
	for _, s := range program {
		r.do(s)
		if time.Since(start) > holdfast.CondPatience/2 {
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
	r.close("x", condName)
	return r.faults
}

// close closes the clients and looks for what is left in the store.
func (r *condRun) close(names ...string) {
	for _, c := range r.clients {
		if err := c.Close(); err != nil {
			r.fail("Close: %v", err)
		}
	}
	time.Sleep(10 * time.Second) // what is still under way arrives
	synctest.Wait()
	for _, name := range names {
		s, err := r.store.Snapshot(context.Background(), engine.Resource{Prefix: holdfast.DefaultPrefix, Name: name})
		if err != nil || len(s.Holders)+len(s.Waiters) > 0 {
			r.fail("left in the store: %+v, %v", s, err)
		}
	}
}

// Random programs wake whom the model says, in its order, also if their wake-ups
// get lost; nobody hangs and nothing is left.
func TestCondUnderRandomPrograms(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		program := rapid.SliceOfN(rapid.Custom(drawCondStep), 1, 30).Draw(rt, "program")
		var faults []string
		synctest.Test(t, func(*testing.T) { faults = runCond(program) })
		if len(faults) > 0 {
			rt.Fatalf("%q", faults)
		}
	})
}

// supply is a run of producers and consumers behind bad networks.
type supply struct {
	condRun
	stock, taken int // protected by the mutex "x"
}

// until takes the mutex when there is stock, or room, whatever goes wrong.
func (s *supply) until(client int, ready func() bool) *holdfast.Lease {
	ctx := context.Background()
	m := s.clients[client].Mutex("x")
	for {
		l, err := m.Lock(ctx)
		for err == nil && !ready() {
			l, err = m.Cond("ready").Wait(ctx, l)
		}
		if err == nil && l.Err() == nil {
			return l
		}
	}
}

// signal insists: a signal whose outcome is unknown is repeated.
func (s *supply) signal(client int) {
	for s.cond(client).Signal(context.Background()) != nil {
		<-time.After(100 * time.Millisecond)
	}
}

// runSupply lets items be taken by consumers on the clients 0 and 1 while faults
// come; client 2 puts them. Nobody may hang for longer than the patience.
func runSupply(program []step) []string {
	s := &supply{condRun: condRun{world: world{store: memory.New()}}}
	for range 3 {
		net := newFaulty()
		net.Engine = s.store
		c, err := holdfast.New(net)
		if err != nil {
			return []string{err.Error()}
		}
		s.nets, s.clients = append(s.nets, net), append(s.clients, c)
	}
	const each = 3
	for consumer := range 4 {
		s.actors.Go(func() {
			for range each {
				l := s.until(consumer%2, func() bool { return s.stock > 0 })
				s.stock--
				s.taken++
				_ = l.Release(context.Background())
			}
		})
	}
	s.actors.Go(func() {
		for range 4 * each {
			l := s.until(2, func() bool { return true })
			s.stock++
			_ = l.Release(context.Background())
			s.signal(2)
			time.Sleep(200 * time.Millisecond)
		}
	})
	for _, st := range program {
		s.world.do(st)
	}
	for i := range s.nets {
		s.world.do(step{Do: "heal", Client: i})
	}
	time.Sleep(holdfast.CondPatience + 15*time.Second)
	synctest.Wait()
	if s.taken != 4*each {
		s.fail("%d of %d taken: somebody hangs", s.taken, 4*each)
		for range 4 * each {
			s.stock += each
			_ = s.cond(0).Broadcast(context.Background())
			time.Sleep(10 * time.Second)
		}
	}
	s.actors.Wait()
	s.close("x", condName)
	return s.faults
}

func drawFault(t *rapid.T) step {
	s := drawStep(t)
	if s.Do == "lock" || s.Do == "try" || s.Do == "break holder" || s.Do == "break waiter" {
		s.Do = "heal"
	}
	return s
}

func TestCondNobodyHangsUnderFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		program := rapid.SliceOfN(rapid.Custom(drawFault), 1, 20).Draw(rt, "program")
		var faults []string
		synctest.Test(t, func(*testing.T) { faults = runSupply(program) })
		if len(faults) > 0 {
			rt.Fatalf("%q", faults)
		}
	})
}
