package virtual

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// Campaign runs the programs of many seeds.
type Campaign struct {
	World World
	// First and Count are the seeds: First to First+Count-1.
	First uint64
	Count int
	// Workers is the number of programs run at once (default 1).
	Workers int
	// Enough is the number of failures that ends the campaign (default 1).
	Enough int
	// For ends the campaign after that time (default: never).
	For time.Duration
	// Progress is called after every 1,000 programs with their number, unless it is nil.
	Progress func(played int)
}

// Summary is the result of a campaign.
type Summary struct {
	Played   int            // number of programs
	Grants   int            // number of leases
	Took     time.Duration  // real time
	Virtual  time.Duration  // virtual time of all programs
	Lingered Lingered       // in the worlds whose engine recalls leases
	Shared   int            // number of readers that joined the lease of another
	Stopped  map[string]int // pauses at points of the client, by point
	Hit      map[Action]int // what the faults did, by fault
	Failures []Result       // in the order in which they were found
}

// Run runs the programs until all are done, Enough have failed, or the time is over.
func (c Campaign) Run(t *testing.T) Summary {
	start := time.Now()
	var (
		next    atomic.Uint64
		stop    atomic.Bool
		mu      sync.Mutex
		total   Summary
		workers sync.WaitGroup
	)
	for range max(1, c.Workers) {
		workers.Go(func() {
			for !stop.Load() {
				n := next.Add(1) - 1
				if n >= uint64(c.Count) || c.For > 0 && time.Since(start) > c.For {
					return
				}
				r := Play(t, Draw(c.First+n, c.World))
				mu.Lock()
				total.add(r)
				played := total.Played
				stop.Store(len(total.Failures) >= max(1, c.Enough))
				mu.Unlock()
				if c.Progress != nil && played%1000 == 0 {
					c.Progress(played)
				}
			}
		})
	}
	workers.Wait()
	total.Took = time.Since(start)
	return total
}

func (s *Summary) add(r Result) {
	s.Played++
	s.Virtual += r.Took
	s.Lingered.add(r.Lingered)
	s.Shared += r.Shared
	for point, n := range r.Stopped {
		if s.Stopped == nil {
			s.Stopped = map[string]int{}
		}
		s.Stopped[point] += n
	}
	for a, n := range r.Hit {
		if s.Hit == nil {
			s.Hit = map[Action]int{}
		}
		s.Hit[a] += n
	}
	for _, op := range r.History {
		if op.Kind == history.Acquire && op.Outcome == history.OK {
			s.Grants++
		}
	}
	if len(r.Violations) > 0 {
		s.Failures = append(s.Failures, r)
	}
}

// The least numbers of programs in which leases must have been kept and recalled, and each fault must have hit something, and
// in which each fault must have met a lease that lingers, and a wipe any lease.
const manyPrograms, manyForFaults = 300, 2000

// Pauses returns the number of pauses at points of the client.
func (s Summary) Pauses() (n int) {
	for _, at := range s.Stopped {
		n += at
	}
	return n
}

// faults lists the faults that programs in a world have, but Stop.
func (w World) faults() []Action {
	all := []Action{Pause, Crash, Cut, Hang, Deaf, Mute, Slow, Twice, Down, Wipe, Break}
	switch {
	case w == Documents:
		all = append(all, Visits)
	case w == Redis:
		all = append(all, Jump)
	}
	if w.recalls() {
		all = append(all, Restart)
	}
	return all
}

// Hollow returns what makes a campaign in a world show less than it seems to.
func (s Summary) Hollow(world World) []string {
	var why []string
	if s.Played > 0 && s.Grants == 0 {
		why = append(why, "no lease was granted")
	}
	for _, a := range world.faults() {
		least := manyPrograms
		if a == Wipe {
			least = manyForFaults
		}
		if s.Played >= least && s.Hit[a] == 0 {
			why = append(why, fmt.Sprintf("no %s hit anything in %d programs", a, s.Played))
		}
	}
	if s.Shared == 0 && s.Played >= manyPrograms {
		why = append(why, fmt.Sprintf("no reader shared a lease in %d programs", s.Played))
	}
	for _, point := range s.neverStopped(world) {
		why = append(why, fmt.Sprintf("no process was paused at %s in %d programs", point, s.Played))
	}
	if !world.recalls() {
		return why
	}
	for _, what := range s.Lingered.never(s.Played) {
		why = append(why, fmt.Sprintf("there was no %s in %d programs", what, s.Played))
	}
	return why
}

// Checks returns the names of the checks with violations, each once.
func (r Result) Checks() (names []string) {
	seen := map[string]bool{}
	for _, v := range r.Violations {
		if !seen[v.Check] {
			seen[v.Check] = true
			names = append(names, v.Check)
		}
	}
	return names
}

// saw reports whether a check found a violation.
func saw(found []check.Violation, name string) bool {
	for _, v := range found {
		if v.Check == name {
			return true
		}
	}
	return false
}
