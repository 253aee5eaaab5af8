package primitivetest

import (
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// Stage is where a script is played: a store, and what time means there. A stage
// is for one script.
type Stage struct {
	// Store is what an operator works with, who is never cut off.
	Store engine.Engine
	// Node returns the engine of one more client of the store.
	Node func() engine.Engine
	// Prefix separates scripts that are played on one store at once.
	Prefix string
	// Pace is by what the times of a script are divided. TTLs that a script relies
	// on are not, and no TTL becomes shorter than holdfast.MinTTL.
	Pace int
	// Late is how much later than expected something may come when nothing stands still.
	Late time.Duration
	// Stood is for how long at most the store, or this process, has stood still since
	// the script began. That is a fault too, which no script plans.
	Stood func() time.Duration
	// Rest returns when all callers have come to rest, if that can be known.
	Rest func()
	// Settle waits for what has to come about without a script's further doing,
	// and tells whether it did.
	Settle func(comes func() bool) bool
}

// Bubble is a stage in a bubble of testing/synctest, on a store inside it.
func Bubble(store engine.Engine) *Stage {
	return &Stage{
		Store: store, Node: func() engine.Engine { return store }, Prefix: holdfast.DefaultPrefix,
		Pace: 1, Late: 250 * time.Millisecond, Rest: synctest.Wait, Stood: func() time.Duration { return 0 },
		Settle: func(comes func() bool) bool {
			synctest.Wait()
			return comes()
		},
	}
}

// disturbed tells whether a lease may have run out, or a waiter have been taken for
// dead, because nothing went on for a while. What a script without faults sees then
// proves nothing; what must never happen is a failure all the same.
func (s *Stage) disturbed() bool { return s.Stood() > 400*time.Millisecond }

// late is how much later than expected something may come.
func (s *Stage) late() time.Duration { return s.Late + 2*s.Stood() }

// virtual tells whether nothing takes time but what the script says.
func (s *Stage) virtual() bool { return s.Pace == 1 }

// span is a time of a script, here.
func (s *Stage) span(d time.Duration) time.Duration { return d / time.Duration(s.Pace) }

// ttl is a TTL that may run out.
func (s *Stage) ttl(d time.Duration) holdfast.LockOption { return holdfast.WithTTL(s.lasting(d)) }

// lasting is a TTL of a script, here.
func (s *Stage) lasting(d time.Duration) time.Duration { return max(holdfast.MinTTL, s.span(d)) }

// pass lets a time of a script go by.
func (s *Stage) pass(d time.Duration) { <-time.After(s.span(d)) }

func (s *Stage) resource(name string) engine.Resource {
	return engine.Resource{Prefix: s.Prefix, Name: name}
}

// Script is one random program.
type Script interface {
	// Play runs the program and returns what was not as the model says. In a bubble,
	// that also fails when a goroutine is left.
	Play(s *Stage) (wrong []string)
}

// drawer draws a script of so many steps at least.
type drawer func(t *rapid.T, least int) Script

// Program is where the scripts for one promise of a primitive come from.
type Program struct {
	Name string // the primitive and, after a slash, which of its promises
	draw drawer
}

// Draw draws a script, half of the time a long one: small ones tell more when they
// fail.
func (p Program) Draw(t *rapid.T) Script {
	return p.draw(t, rapid.SampledFrom([]int{1, longLeast}).Draw(t, "least"))
}

// Seeded returns the script of a seed, a long one.
func (p Program) Seeded(seed int) Script {
	return rapid.Custom(func(t *rapid.T) Script { return p.draw(t, longLeast) }).Example(seed)
}

// longLeast is how many steps a long script has at least.
const longLeast = 12

// Programs returns those of all primitives.
func Programs() []Program {
	return []Program{
		{"mutex/faults", drawTurns},
		{"rwmutex/order", drawOrder(readWriters())},
		{"rwmutex/faults", drawMarket(readWriters())},
		{"semaphore/order", drawOrder(semaphores())},
		{"semaphore/faults", drawMarket(semaphores())},
		{"multi/calm", drawGatherings(false)},
		{"multi/faults", drawGatherings(true)},
		{"latch/faults", drawCountdown},
		{"cond/order", drawSignals},
		{"cond/faults", drawSupply},
		{"election/faults", drawElectorate},
		{"job/faults", drawPlan},
		{"once/faults", drawWorkshop},
	}
}
