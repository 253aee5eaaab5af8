package primitivetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// step is one line of a random program. A program runs against several clients
// of one store, each behind a network of its own.
type step struct {
	Do     string
	Client int
	Opts   string
	Wait   time.Duration // of a caller, before it gives up
	Hold   time.Duration // of a lease, before it is given back
	Sleep  time.Duration // after the step
}

func millis(t *rapid.T, name string, most int) time.Duration {
	return time.Duration(rapid.IntRange(0, most).Draw(t, name)) * time.Millisecond
}

// drawHold draws for how long a lease is held: often for longer than a TTL, so that
// a client that is cut off meets others who come after it.
func drawHold(t *rapid.T) time.Duration {
	return millis(t, "hold", 3000) + rapid.SampledFrom([]time.Duration{0, 500 * time.Millisecond, 3 * time.Second}).Draw(t, "and")
}

// drawWait draws how patient a caller is: mostly patient enough to have its turn,
// since small numbers are drawn more often than large ones.
func drawWait(t *rapid.T) time.Duration {
	return millis(t, "wait", 8000) + rapid.SampledFrom([]time.Duration{0, 4 * time.Second, 16 * time.Second}).Draw(t, "patience")
}

func drawStep(t *rapid.T) step {
	return step{
		// There is as much good weather as bad: nobody meets anybody in bad weather alone.
		Do: rapid.SampledFrom([]string{"lock", "lock", "lock", "lock", "lock", "lock", "lock", "try", "break holder", "break waiter",
			"down", "hang", "slow", "lose replies", "drop wake-ups", "heal", "heal", "heal", "heal"}).Draw(t, "do"),
		Client: rapid.IntRange(0, 2).Draw(t, "client"),
		Opts:   rapid.SampledFrom([]string{"", "", "short", "no tenure", "no renewal"}).Draw(t, "opts"),
		Wait:   drawWait(t),
		Hold:   drawHold(t),
		Sleep:  rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 30 * time.Millisecond, time.Second, 3 * time.Second}).Draw(t, "sleep"),
	}
}

// world is the clients of a script, and what went wrong.
type world struct {
	*Stage
	nets    []*Net
	clients []*holdfast.Client
	actors  sync.WaitGroup

	mu     sync.Mutex
	broken []string // holder IDs that an operator ended: fencing covers those
	wrong  []string
}

// enter opens clients, each behind a network of its own.
func (w *world) enter(s *Stage, clients int) {
	w.Stage = s
	for range clients {
		net := NewNet(s.Node())
		c, err := holdfast.New(net, holdfast.WithPrefix(s.Prefix))
		if err != nil {
			panic(err) // no fault: the test itself is wrong
		}
		w.nets, w.clients = append(w.nets, net), append(w.clients, c)
	}
}

// failing notes what went wrong. It needs the mutex.
func (w *world) failing(format string, args ...any) {
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// fail does so without it.
func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing(format, args...)
}

// isBroken tells whether an operator ended the lease, of which its client may not
// have heard. It needs the mutex.
func (w *world) isBroken(l *holdfast.Lease) bool { return slices.Contains(w.broken, l.HolderID()) }

// weather changes the network of a client, and tells whether it knows the step.
func (w *world) weather(s step) bool {
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

// refused tells whether a client may be refused a lease with this error, which is for
// the TTL only if that may be too short.
func (w *world) refused(err error, client int, ttl time.Duration) bool {
	return errors.Is(err, holdfast.ErrNotAcquired) && !w.unfounded(err, client, ttl)
}

// unfounded tells whether an error says that a TTL is too short for the store, although
// no grant can have come to the client after its trust window: its network has never
// been so slow.
func (w *world) unfounded(err error, client int, ttl time.Duration) bool {
	if !errors.Is(err, holdfast.ErrInvalid) {
		return false
	}
	lag := w.nets[client].Lag()
	if !w.virtual() {
		lag += w.late()
	}
	return lag < ttl-ttl/50-20*time.Millisecond
}

// heal ends all bad weather.
func (w *world) heal() {
	for i := range w.nets {
		w.weather(step{Do: "heal", Client: i})
	}
}

// breaks lets an operator end a lease or a wait.
func (w *world) breaks(name string, holder bool) {
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
	_ = w.Store.Break(context.Background(), s.Resource, engine.Break{ID: id}) // it may have gone meanwhile
}

// in makes a call that has to end in time. The ctx of the call ends with it, and so
// does the Context of a lease that it got, but not the lease.
func (w *world) in(s step, call func(ctx context.Context) error) error {
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

// close closes the clients and looks for what is left of resources in the store.
func (w *world) close(names ...string) []string {
	for _, c := range w.clients {
		if err := c.Close(); err != nil {
			w.fail("Close: %v", err)
		}
	}
	if w.virtual() {
		w.pass(10 * time.Second)
	}
	for _, net := range w.nets {
		net.Arrived()
	}
	for _, name := range names {
		if !w.Settle(func() bool { return w.idle(name) }) {
			s, err := w.Store.Snapshot(context.Background(), w.resource(name))
			w.fail("left in the store: %+v, %v", s, err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wrong
}

// idle tells whether nobody holds or waits for a resource.
func (w *world) idle(name string) bool {
	s, err := w.Store.Snapshot(context.Background(), w.resource(name))
	return err == nil && len(s.Holders)+len(s.Waiters) == 0
}

// snapshot is what the store says of a resource.
func (w *world) snapshot(name string) engine.Snapshot {
	s, err := w.Store.Snapshot(context.Background(), w.resource(name))
	if err != nil {
		w.fail("snapshot: %v", err)
	}
	return s
}
