package primitivetest

import (
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/random"
)

// Environment is where one script runs: a store, and the scale of time.
type Environment struct {
	// Store is the engine of the test itself and of operators. It has no faults.
	Store engine.Engine
	// Node returns the engine of one more client of the store.
	Node func() engine.Engine
	// Prefix separates scripts that run on one store at once.
	Prefix string
	// Pace divides the times of a script, but not the TTLs of leases that must not expire.
	// No TTL becomes shorter than holdfast.MinTTL.
	Pace int
	// Late is how much later than expected an event may happen without a stall.
	Late time.Duration
	// Clockless is set if an observer may take a lease for expired that its holder still renews; see RealStore.
	Clockless bool
	// Stalled returns the longest stall of the store or of this process since the script
	// began. Stalls are faults that are not part of the script.
	Stalled func() time.Duration
	// Idle returns when all callers are blocked; in real time, where this cannot be
	// detected, at once.
	Idle func()
	// Eventually waits until a condition holds, and reports whether it does.
	Eventually func(holds func() bool) bool

	mu      sync.Mutex
	dropped []string // failures of which a stall may be the cause
}

// bubbleEnvironment returns an environment of virtual time. It is called in a bubble of
// testing/synctest, with a store of that bubble.
func bubbleEnvironment(store engine.Engine) *Environment {
	return &Environment{
		Store: store, Node: func() engine.Engine { return store }, Prefix: holdfast.DefaultPrefix,
		Pace: 1, Late: 250 * time.Millisecond, Idle: synctest.Wait, Stalled: func() time.Duration { return 0 },
		Eventually: func(holds func() bool) bool {
			synctest.Wait()
			return holds()
		},
	}
}

// drop notes a failure of which a stall may be the cause. A RealStore plays the script again.
func (s *Environment) drop(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped = append(s.dropped, what)
}

// Dropped returns the failures that were not counted because of a stall.
func (s *Environment) Dropped() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.dropped)
}

// disturbed reports whether a stall may have made a lease expire or a waiter seem dead.
// A script without faults then cannot check what must happen, but still checks what
// must never happen.
func (s *Environment) disturbed() bool { return s.Stalled() > 400*time.Millisecond }

// late returns how much later than expected an event may happen.
func (s *Environment) late() time.Duration { return s.Late + 2*s.Stalled() }

// virtual reports whether time passes only in the steps of the script.
func (s *Environment) virtual() bool { return s.Pace == 1 }

// span scales a duration of a script.
func (s *Environment) span(d time.Duration) time.Duration { return d / time.Duration(s.Pace) }

// ttl returns the option for a TTL of a script, which may expire.
func (s *Environment) ttl(d time.Duration) holdfast.LockOption { return holdfast.WithTTL(s.ttlOf(d)) }

// ttlOf scales a TTL of a script.
func (s *Environment) ttlOf(d time.Duration) time.Duration { return max(holdfast.MinTTL, s.span(d)) }

// elapse waits for a duration of a script.
func (s *Environment) elapse(d time.Duration) { <-time.After(s.span(d)) }

func (s *Environment) resource(name string) engine.Resource {
	return engine.Resource{Prefix: s.Prefix, Name: name}
}

// Script is one random program.
type Script interface {
	// Play runs the program and returns the differences from the model. In a bubble, a
	// goroutine that is left is a failure too.
	Play(s *Environment) (wrong []string)
}

// drawer draws a script of at least the given number of steps.
type drawer func(t *random.T, least int) Script

// Program draws the scripts for one promise of a primitive.
type Program struct {
	Name string // the primitive, a slash, and the promise
	draw drawer

	faultless bool // a stall is the only fault
}

// Draw draws a script. Half of the scripts are long; the failure of a short one is easier to
// read.
func (p Program) Draw(t *random.T) Script {
	return p.draw(t, random.SampledFrom([]int{1, longLeast}).Draw(t, "least"))
}

// Seeded returns the script of a seed. It is long.
func (p Program) Seeded(seed int) Script {
	return random.Custom(func(t *random.T) Script { return p.draw(t, longLeast) }).Seeded(uint64(seed))
}

// longLeast is the least number of steps of a long script.
const longLeast = 12

// Programs returns the programs of all primitives. The lab has mutexes, readers and semaphores under faults.
func Programs() []Program {
	return []Program{
		{"rwmutex/order", drawOrder(readWriters()), true},
		{"semaphore/order", drawOrder(semaphores()), true},
		{"multi/calm", drawMulti(false), true},
		{"multi/faults", drawMulti(true), false},
		{"latch/faults", drawLatch, false},
		{"cond/order", drawCond, true},
		{"cond/faults", drawCondFaults, false},
		{"election/faults", drawElection, false},
		{"job/faults", drawJob, false},
		{"once/faults", drawOnce, false},
	}
}
