package primitivetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/random"
)

// step is one step of a script: a call of a client, or a fault of its network.
type step struct {
	Do     string
	Client int
	Opts   string        // short: a TTL that expires
	Wait   time.Duration // timeout of the call
	Hold   time.Duration // until the release of the lease
	Sleep  time.Duration // after the step
}

// usualTTL is the TTL without an option.
const usualTTL = 2 * time.Second

func millis(t *random.T, name string, most int) time.Duration {
	return time.Duration(random.IntRange(0, most).Draw(t, name)) * time.Millisecond
}

// drawHold draws how long a lease is held: often longer than a TTL, so that the lease of a
// client without a connection expires and others are granted.
func drawHold(t *random.T) time.Duration {
	return millis(t, "hold", 3000) + random.SampledFrom([]time.Duration{0, 500 * time.Millisecond, 3 * time.Second}).Draw(t, "and")
}

// drawWait draws the timeout of a call. It adds to the number from millis, since small
// numbers are drawn more often than large ones, and most waits should be granted.
func drawWait(t *random.T) time.Duration {
	return millis(t, "wait", 8000) + random.SampledFrom([]time.Duration{0, 4 * time.Second, 16 * time.Second}).Draw(t, "longer")
}

func drawStep(t *random.T) step {
	return step{
		// As many repairs as faults: with more faults, callers seldom compete for a lease.
		Do: random.SampledFrom([]string{"lock", "lock", "lock", "lock", "lock", "lock", "lock", "try", "break holder", "break waiter",
			"down", "hang", "slow", "lose replies", "drop wake-ups", "heal", "heal", "heal", "heal"}).Draw(t, "do"),
		Client: random.IntRange(0, 2).Draw(t, "client"),
		Wait:   drawWait(t),
		Hold:   drawHold(t),
		Sleep:  random.SampledFrom([]time.Duration{0, 0, time.Millisecond, 30 * time.Millisecond, time.Second, 3 * time.Second}).Draw(t, "sleep"),
	}
}

// simulation has the clients of a running script and the failures so far.
type simulation struct {
	*Environment
	nets    []*Net
	clients []*holdfast.Client
	actors  sync.WaitGroup

	mu     sync.Mutex
	broken []string // holder IDs broken by an operator: only fencing is promised for them
	wrong  []string // failures
}

// openClients opens clients, each behind a network of its own.
func (w *simulation) openClients(s *Environment, clients int) {
	w.Environment = s
	for range clients {
		net := NewNet(s.Node())
		c, err := holdfast.New(net, holdfast.WithPrefix(s.Prefix))
		if err != nil {
			panic(err) // the test itself is wrong
		}
		w.nets, w.clients = append(w.nets, net), append(w.clients, c)
	}
}

// failing records a failure. The mutex is held.
func (w *simulation) failing(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// fail locks the mutex and records a failure.
func (w *simulation) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing(format, args...)
}

// failCalm records a failure that a stall explains too: after one, as dropped.
func (w *simulation) failCalm(format string, args ...any) {
	if w.disturbed() {
		w.drop(fmt.Sprintf(format, args...))
		return
	}
	w.fail(format, args...)
}

// isBroken reports whether an operator broke the lease, even if its client has not received
// the break yet. The mutex is held.
func (w *simulation) isBroken(l *holdfast.Lease) bool { return slices.Contains(w.broken, l.HolderID()) }

// setNetwork changes the network of a client, if the step is such a change.
func (w *simulation) setNetwork(s step) {
	net := w.nets[s.Client]
	switch s.Do {
	case "down":
		net.All(Down)
	case "hang":
		net.All(Hang)
	case "slow":
		net.Slow(w.span(s.Wait%(8*time.Second)/20), w.span(s.Hold%(3*time.Second)/3))
	case "lose replies":
		net.LoseReplies()
	case "drop wake-ups":
		net.Set(func() { net.OnWake = func(engine.Wakeup) bool { return false } })
	case "heal":
		net.All(nil)
		net.Set(func() { net.OnWake = nil })
	}
}

// refused reports whether err is a valid reason why a client did not acquire: one that
// matches ErrNotAcquired, and ErrInvalid only if wronglyTooShort is false.
func (w *simulation) refused(err error, client int, ttl time.Duration) bool {
	return errors.Is(err, holdfast.ErrNotAcquired) && !w.wronglyTooShort(err, client, ttl)
}

// wronglyTooShort reports whether err states that the TTL is too short for the store,
// although the network of the client was never slow enough for a grant to arrive after its
// trust window.
func (w *simulation) wronglyTooShort(err error, client int, ttl time.Duration) bool {
	if !errors.Is(err, holdfast.ErrInvalid) {
		return false
	}
	lag := w.nets[client].Lag()
	if !w.virtual() {
		lag += w.late()
	}
	return lag < ttl-ttl/50-20*time.Millisecond
}

// healAll ends the faults of all networks.
func (w *simulation) healAll() {
	for i := range w.nets {
		w.setNetwork(step{Do: "heal", Client: i})
	}
}

// breakLease breaks a lease, or a wait, of a resource as an operator does.
func (w *simulation) breakLease(name string, holder bool) {
	s, err := w.look(name)
	if err != nil {
		w.fail("snapshot: %v", err)
		return
	}
	id := ""
	if holder && len(s.Holders) > 0 {
		id = s.Holders[len(s.Holders)/2].ID
	} else if !holder && len(s.Waiters) > 0 {
		id = s.Waiters[len(s.Waiters)/2].ID
	}
	if id == "" {
		return
	}
	w.mu.Lock()
	w.broken = append(w.broken, id)
	w.mu.Unlock()
	_ = w.Store.Break(context.Background(), s.Resource, engine.Break{ID: id}) // it may have ended meanwhile
}

// bounded makes a call with the timeout of the step, and records a failure if the call
// returns later. Afterwards it cancels the ctx of the call; that ends the Context of a lease
// that the call acquired, but not the lease.
func (w *simulation) bounded(s step, call func(ctx context.Context) error) error {
	wait := w.span(s.Wait)
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	start := time.Now()
	err := call(ctx)
	if late := time.Since(start) - wait; late > w.late() {
		w.fail("%s returned %v after its ctx ended", s.Do, late)
	}
	return err
}

// close closes the clients and checks that nothing of the resources is left in the store.
func (w *simulation) close(names ...string) []string {
	for _, c := range w.clients {
		if err := c.Close(); err != nil {
			w.fail("Close: %v", err)
		}
	}
	if w.virtual() {
		for _, name := range names {
			w.idle(name) // a store without a clock times dead parties from the first look at them
		}
		w.elapse(10 * time.Second)
	}
	for _, net := range w.nets {
		net.Arrived()
	}
	for _, name := range names {
		if !w.Eventually(func() bool { return w.idle(name) }) {
			s, err := w.Store.Snapshot(context.Background(), w.resource(name))
			w.fail("left in the store: %+v, %v", s, err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wrong
}

// idle reports whether a resource has no holder and no waiter.
func (w *simulation) idle(name string) bool {
	s, err := w.Store.Snapshot(context.Background(), w.resource(name))
	return err == nil && len(s.Holders)+len(s.Waiters) == 0
}

// snapshot returns the state of a resource in the store.
func (w *simulation) snapshot(name string) engine.Snapshot {
	s, err := w.look(name)
	if err != nil {
		w.fail("snapshot: %v", err)
	}
	return s
}

// look reads the state of a resource. It waits while a real store is unavailable, since even the
// operator's connection may be lost when the machine stalls.
func (w *simulation) look(name string) (s engine.Snapshot, err error) {
	read := func() bool {
		s, err = w.Store.Snapshot(context.Background(), w.resource(name))
		return !errors.Is(err, engine.ErrUnavailable)
	}
	if !read() && !w.virtual() {
		w.Eventually(read)
	}
	return s, err
}
