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

// step is one line of a random program. A program runs against several clients
// of one store, each behind a network of its own.
type step struct {
	Do     string
	Client int
	Opts   string
	Wait   time.Duration // of a caller, at most
	Hold   time.Duration // of a lease, until its release
	Sleep  time.Duration // after the step
}

func millis(t *random.T, name string, most int) time.Duration {
	return time.Duration(random.IntRange(0, most).Draw(t, name)) * time.Millisecond
}

// drawHold draws for how long a lease is held: often for longer than a TTL, so that the
// lease of a client that is cut off passes to others.
func drawHold(t *random.T) time.Duration {
	return millis(t, "hold", 3000) + random.SampledFrom([]time.Duration{0, 500 * time.Millisecond, 3 * time.Second}).Draw(t, "and")
}

// drawWait draws for how long a caller waits at most: mostly long enough to be granted,
// since small numbers are drawn more often than large ones.
func drawWait(t *random.T) time.Duration {
	return millis(t, "wait", 8000) + random.SampledFrom([]time.Duration{0, 4 * time.Second, 16 * time.Second}).Draw(t, "longer")
}

func drawStep(t *random.T) step {
	return step{
		// As many repairs as faults: under faults alone no two callers meet.
		Do: random.SampledFrom([]string{"lock", "lock", "lock", "lock", "lock", "lock", "lock", "try", "break holder", "break waiter",
			"down", "hang", "slow", "lose replies", "drop wake-ups", "heal", "heal", "heal", "heal"}).Draw(t, "do"),
		Client: random.IntRange(0, 2).Draw(t, "client"),
		Opts:   random.SampledFrom([]string{"", "", "short", "no tenure", "no renewal"}).Draw(t, "opts"),
		Wait:   drawWait(t),
		Hold:   drawHold(t),
		Sleep:  random.SampledFrom([]time.Duration{0, 0, time.Millisecond, 30 * time.Millisecond, time.Second, 3 * time.Second}).Draw(t, "sleep"),
	}
}

// simulation is the clients of a script, and the failures so far.
type simulation struct {
	*Environment
	nets    []*Net
	clients []*holdfast.Client
	actors  sync.WaitGroup

	mu     sync.Mutex
	broken []string // holder IDs that an operator ended: fencing covers those
	wrong  []string
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

// failing records a failure. It needs the mutex.
func (w *simulation) failing(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// fail does so and takes the mutex.
func (w *simulation) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing(format, args...)
}

// isBroken reports whether an operator broke the lease, although its client may not
// have received it yet. It needs the mutex.
func (w *simulation) isBroken(l *holdfast.Lease) bool { return slices.Contains(w.broken, l.HolderID()) }

// setNetwork changes the network of a client, and reports whether the step is such a change.
func (w *simulation) setNetwork(s step) bool {
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
	default:
		return false
	}
	return true
}

// refused reports whether a client may be refused a lease with this error, which may be
// ErrInvalid only if the TTL may be too short.
func (w *simulation) refused(err error, client int, ttl time.Duration) bool {
	return errors.Is(err, holdfast.ErrNotAcquired) && !w.wronglyTooShort(err, client, ttl)
}

// wronglyTooShort reports whether an error says that a TTL is too short for the store,
// although no grant can have come to the client after its trust window: its network has
// never been so slow.
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

// breakLease is an operator's break of a lease or a wait.
func (w *simulation) breakLease(name string, holder bool) {
	s, err := w.Store.Snapshot(context.Background(), w.resource(name))
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

// bounded makes a call that has to end in time. The ctx of the call ends with it, and so
// does the Context of a lease that it got, but not the lease.
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
			w.idle(name) // on a store without a clock, what is dead is timed from the first look
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
	s, err := w.Store.Snapshot(context.Background(), w.resource(name))
	if err != nil {
		w.fail("snapshot: %v", err)
	}
	return s
}
