package virtual

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/pausepoint"
)

// World is the engine that the clients use.
type World string

// The worlds.
const (
	Memory World = "memory" // engine/memory
	Quorum World = "quorum" // engine/quorum over three of engine/memory
	Redis  World = "redis"  // engine/goredis on miniredis
	// engine/cas, on a store with a clock and on one without
	TimedDocuments World = "timed documents"
	Documents      World = "documents"
)

// Program is a schedule of work and faults. It prints as JSON.
type Program struct {
	Seed      uint64    `json:"seed"`
	World     World     `json:"world"`
	Processes int       `json:"processes"`
	Rates     []float64 `json:"rates"` // of the stores' clocks, relative to the processes' clocks
	// Ahead is by how much the clock of each store of a quorum is ahead; empty: not at all.
	Ahead []time.Duration `json:"ahead,omitempty"`
	Steps []Step          `json:"steps"`
}

// Action is the action of a step.
type Action string

// The actions. Round is work; all others are faults, which end by themselves
// after For.
const (
	Round Action = "round"
	// Restart is work too: another process replaces it, and it ends when its rounds have.
	Restart Action = "restart"
	// Visits are processes that live for one try each, one a second during For. If Delay is not 0, each is killed after
	// it unless it has ended.
	Visits Action = "visits"
	Pause  Action = "pause" // the process is paused
	// Stop pauses the process when its client comes to Point for the Nth time, unless it has not come there within
	// Delay. Only a build with points has it; see package pausepoint.
	Stop  Action = "stop"
	Crash Action = "crash" // the process dies; after For another one replaces it
	Cut   Action = "cut"   // link: connections are refused, and open ones break
	Hang  Action = "hang"  // link: requests are lost
	Deaf  Action = "deaf"  // link: requests arrive, answers and wake-ups do not
	Mute  Action = "mute"  // link: wake-ups are lost
	Slow  Action = "slow"  // link: requests, answers and wake-ups are delayed
	Twice Action = "twice" // link: requests and recalls arrive twice
	Down  Action = "down"  // the store is unreachable, and returns with its data
	Wipe  Action = "wipe"  // the store is unreachable, and returns without its data
	Break Action = "break" // an operator ends a wait, or breaks a lease, by force or not
	Jump  Action = "jump"  // the clock of a store on miniredis is set, by Delay; forward or back
)

// Step is one step of a program. It starts its work or fault, and the next step begins
// after Sleep.
type Step struct {
	Do      Action        `json:"do"`
	Process int           `json:"process,omitempty"`
	Node    int           `json:"node,omitempty"`  // of a link, or the store; -1: all links of the process
	For     time.Duration `json:"for,omitempty"`   // how long the fault lasts
	Delay   time.Duration `json:"delay,omitempty"` // of a slow link, at most, each way
	Sleep   time.Duration `json:"sleep,omitempty"` // before the next step
	Force   bool          `json:"force,omitempty"` // of a break: the lease ends at once
	Point   string        `json:"point,omitempty"` // of a stop
	Nth     int           `json:"nth,omitempty"`   // of a stop

	// Of a round.
	Lock   Lock          `json:"lock,omitempty"`
	Name   string        `json:"name,omitempty"`
	Weight int           `json:"weight,omitempty"`
	TTL    time.Duration `json:"ttl,omitempty"`
	Wait   time.Duration `json:"wait,omitempty"` // timeout of its ctx
	Hold   time.Duration `json:"hold,omitempty"`
	Way    Way           `json:"way,omitempty"`
	Linger time.Duration `json:"linger,omitempty"` // of WithLinger
}

// works reports whether the step is work, not a fault.
func (s Step) works() bool { return s.Do == Round || s.Do == Visits }

// Lock is the primitive of a round and the work that is done under it.
type Lock string

// The primitives.
const (
	Counter   Lock = "counter" // Mutex; read, add, write
	Stock     Lock = "stock"   // Mutex; read, take one, write
	Readers   Lock = "readers" // RWMutex; Weight 1 reads both halves of a pair, 2 writes, 3 writes and demotes
	Semaphore Lock = "semaphore"
	Election  Lock = "election"
	Job       Lock = "job"  // Job.Run, once a slot
	Retry     Lock = "once" // Client.Once
)

// Way is how a round acquires.
type Way string

// The ways.
const (
	Plain     Way = ""
	Try       Way = "try"
	NoTenure  Way = "no tenure"
	NoRenewal Way = "no renewal"
)

// semaphoreCapacity is the capacity of every semaphore.
const semaphoreCapacity = 3

// longestTTL is the longest TTL of leases.
const longestTTL = 15 * time.Second

// slotLength is the period of jobs, and how long a Once is kept.
const slotLength = 2 * time.Second

// Draw returns the program of a seed.
func Draw(seed uint64, world World) Program {
	d := drawer{rand.New(rand.NewPCG(seed, 0x686f6c64))}
	p := Program{Seed: seed, World: world, Processes: 2 + d.IntN(3)}
	for range world.nodes() {
		p.Rates = append(p.Rates, d.rate())
	}
	if world == Quorum && d.IntN(3) == 0 {
		p.Ahead = drawn(d, []time.Duration{time.Hour, 0, -time.Hour}, []time.Duration{0, 0, time.Hour},
			[]time.Duration{-11 * time.Minute, 11 * time.Minute, -time.Hour}, []time.Duration{-time.Hour, -time.Hour, 0})
	}
	prof := d.profile()
	switch {
	case world == Redis:
		prof = d.withJumps(prof)
	case slices.Contains(prof.faults, Wipe):
		p.Ahead = nil // see withJumps
	}
	for range 4 + d.IntN(28) {
		p.Steps = append(p.Steps, d.step(p, prof))
	}
	if world == Documents && d.IntN(2) == 0 {
		for range 1 + d.IntN(4) {
			p.Steps = slices.Insert(p.Steps, d.IntN(len(p.Steps)+1), d.visits(prof))
		}
	}
	drawer{rand.New(rand.NewPCG(seed, 0x6c696e676572))}.linger(&p, prof)
	drawer{rand.New(rand.NewPCG(seed, 0x72656164657273))}.readers(&p)
	drawer{rand.New(rand.NewPCG(seed, 0x73746f7073))}.stops(&p, pausepoint.Names())
	return p
}

// ofDocuments reports whether each process has an engine of its own over documents.
func (w World) ofDocuments() bool { return w == Documents || w == TimedDocuments }

func (w World) nodes() int {
	if w == Quorum {
		return 3
	}
	return 1
}

// drawer draws parts of a program.
type drawer struct{ *rand.Rand }

func drawn[T any](d drawer, from ...T) T { return from[d.IntN(len(from))] }

func (d drawer) upTo(most time.Duration) time.Duration {
	return time.Duration(d.Int64N(int64(most/time.Millisecond)+1)) * time.Millisecond
}

// rate draws the rate of a clock, within the 2 % that the margin of a trust window covers.
func (d drawer) rate() float64 { return drawn(d, 1, 1, 0.982, 1.018) }

// profile is from what the steps of a program are drawn.
type profile struct {
	locks  []Lock
	ways   []Way
	faults []Action // empty: there are none, and all callers are served in order
	odds   int      // tenths of the steps that are faults
}

func (d drawer) profile() profile {
	m := profile{odds: 2 + d.IntN(4)}
	all := []Lock{Counter, Stock, Readers, Semaphore, Election, Job, Retry}
	mutexes := []Lock{Counter, Counter, Stock}
	m.locks = drawn(d, all, mutexes, mutexes, []Lock{Readers}, []Lock{Semaphore}, []Lock{Readers, Semaphore}, []Lock{Election, Counter}, []Lock{Job, Retry})
	m.ways = drawn(d, []Way{Plain}, []Way{Plain, Plain, Try, NoTenure, NoRenewal}, []Way{NoTenure})
	network := []Action{Cut, Hang, Deaf, Mute, Slow, Slow, Twice}
	process := []Action{Pause, Pause, Crash}
	everything := append(append([]Action{Down}, network...), process...)
	m.faults = drawn(d, nil, network, process, everything, everything, everything,
		append(everything[:len(everything):len(everything)], Break), append(everything[:len(everything):len(everything)], Wipe),
		[]Action{Slow}, []Action{Slow, Slow, Hang, Pause}, []Action{Pause}, []Action{Mute}, []Action{Break}, []Action{Break, Mute})
	return m
}

// longestJump is the longest jump of a store's clock.
const longestJump = 10 * time.Second

// withJumps adds Jump to some profiles, but not to those with Wipe: a store that has lost
// its data gives tokens by its clock alone, so a clock that was set back gives lower tokens
// than before. For the same reason the clocks of a quorum agree in programs with Wipe.
func (d drawer) withJumps(m profile) profile {
	if d.IntN(4) == 0 && !slices.Contains(m.faults, Wipe) {
		m.faults = append(slices.Clone(m.faults), Jump)
	}
	return m
}

func (d drawer) ttl() time.Duration {
	return drawn(d, 300*time.Millisecond, time.Second, 2*time.Second, 5*time.Second, longestTTL)
}

// visits draws visits of a resource, but not of one that is a candidacy or whose work is done once a slot.
func (d drawer) visits(m profile) Step {
	s := Step{Do: Visits, Lock: Counter, Weight: 1 + d.IntN(3), TTL: d.ttl(), Wait: 5 * time.Second, Way: Try}
	if l := drawn(d, m.locks...); l != Job && l != Retry && l != Election {
		s.Lock = l
	}
	s.Name = fmt.Sprint(s.Lock, d.IntN(2))
	s.For, s.Hold = d.upTo(20*time.Second), drawn(d, 0, d.upTo(50*time.Millisecond), d.upTo(3*time.Second))
	s.Delay, s.Sleep = drawn(d, 0, 0, d.upTo(5*time.Millisecond), d.upTo(3*time.Second)), d.upTo(3*time.Second)
	return s
}

func (d drawer) step(p Program, m profile) Step {
	s := Step{
		Process: d.IntN(p.Processes),
		Sleep:   drawn(d, 0, 0, time.Millisecond, d.upTo(50*time.Millisecond), d.upTo(time.Second), d.upTo(3*time.Second)),
	}
	if len(m.faults) > 0 && d.IntN(10) < m.odds {
		return d.fault(p, m, s)
	}
	s.Do = Round
	s.Lock = drawn(d, m.locks...)
	s.Name = fmt.Sprint(s.Lock, d.IntN(2))
	s.Weight = 1 + d.IntN(3)
	s.TTL = d.ttl()
	s.Wait = d.upTo(8 * time.Second)
	s.Hold = drawn(d, 0, 0, d.upTo(5*time.Millisecond), d.upTo(300*time.Millisecond), d.upTo(3*time.Second), d.upTo(longestTTL))
	s.Way = drawn(d, m.ways...)
	return s
}

// fault draws the fault of a step.
func (d drawer) fault(p Program, m profile, s Step) Step {
	s.Do = drawn(d, m.faults...)
	s.Node = d.IntN(p.World.nodes()+1) - 1
	if s.Do == Down || s.Do == Wipe {
		s.Node = max(0, s.Node)
	}
	s.For = drawn(d, d.upTo(100*time.Millisecond), d.upTo(time.Second), d.upTo(8*time.Second), d.upTo(8*time.Second))
	s.Delay = drawn(d, d.upTo(10*time.Millisecond), d.upTo(200*time.Millisecond), d.upTo(time.Second))
	s.Name = fmt.Sprint(drawn(d, m.locks...), d.IntN(2))
	s.Force = s.Do == Break && d.IntN(2) == 0
	if s.Do == Jump {
		s.Node, s.Delay = 0, d.upTo(2*longestJump)-longestJump
	}
	return s
}
