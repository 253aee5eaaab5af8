package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/fault"
	"github.com/holdfast-go/holdfast/lab/pausepoint"
)

// Campaign plays the programs of many seeds in parallel lanes.
type Campaign struct {
	Setting
	// On are the URLs of stores that the lab does not own; none: each Runner starts its own.
	On []string
	// First and Count are the seeds: First to First+Count-1.
	First uint64
	Count int
	// Lanes is how many programs are played at once (default 2). Most of the time
	// they wait.
	Runners int
	// For ends the campaign after that time (default: never): no run begins after
	// it, except that one run has to show something, for a minute more at most.
	For time.Duration
	// Enough ends the campaign after so many failures (default: never).
	Enough int
	// Command is that of each Runner.
	Command string
	// Controls are played beside the runs, one after the other, on servers of the lab.
	Controls []Control
	// Checks are those of which a violation counts; none: all.
	Checks []string
	// Done is called after each run, one call at a time; nil: not.
	Done func(r Result, err error)
}

// Summary is what came of a campaign.
type Summary struct {
	Setting  Setting
	Seeds    [2]uint64 // first and last that was played
	Played   int       // runs that show something
	Invalid  int       // runs that show nothing
	Missed   int       // of these, those in which a fault was never hit, or the lab did not see a server
	Grants   int       // leases that were got, and runs of slots that began
	Faults   int       // that happened
	Windows  int       // trust windows that were compared with what the stores did
	Lingered int       // leases that a client had kept and a caller took
	Recalls  int       // of leases that a client keeps, or that readers share
	Terms    int       // that observers of elections saw
	Waited   int       // waits for latches and conditions that ended with these
	// What the failovers did, see Result.
	Promotions, Carried, LostOver int
	Recorded                      Recorded           // what was compared with the history in the stores
	Logged                        bool               // the runs compare holdfast log with that history: they have the command, and one Redis
	Rolled                        Rolled             // leases that were relied on when a single store was rolled back
	Rated                         int                // runs in which the clocks of stores ran at other rates
	Controls                      []ControlResult    // of those that were played
	Stopped                       int                // pauses of workers at points of their clients
	ByStall                       int                // lost leases and errors that only a stall of the machine explains
	Calm                          int                // runs without faults, in which order and times were judged
	Hit                           map[fault.Kind]int // of the faults that happened
	Planned                       map[fault.Kind]int // of the faults of all programs that were played
	Took                          time.Duration      // real
	Failures                      []Result           // runs with violations
	Errors                        []string           // of invalid runs but those of missed faults, the first few
}

// mostErrors is how many errors a Summary keeps.
const mostErrors = 10

// Run plays until it is done, or its time or ctx is over.
func (c Campaign) Run(ctx context.Context) Summary {
	start := time.Now()
	c.Stores = OwnStores
	if len(c.On) > 0 {
		c.Stores, c.Nodes = OtherStores, len(c.On)
	}
	logged := c.Command != "" && c.Subject == "holdfast" && c.Nodes <= 1
	sum := Summary{Setting: c.Setting, Logged: logged, Seeds: [2]uint64{c.First, c.First}, Hit: map[fault.Kind]int{}, Planned: map[fault.Kind]int{}}
	var (
		mu    sync.Mutex
		next  uint64
		lanes sync.WaitGroup
	)
	take := func() (uint64, bool) {
		mu.Lock()
		defer mu.Unlock()
		enough := c.Enough > 0 && len(sum.Failures) >= c.Enough || c.late(sum, time.Since(start))
		if next >= uint64(c.Count) || ctx.Err() != nil || enough {
			return 0, false
		}
		next++
		return c.First + next - 1, true
	}
	for range max(1, c.Runners) {
		lanes.Go(func() {
			lane := &Runner{others: c.On, Command: c.Command}
			defer lane.Close()
			for seed, more := take(); more; seed, more = take() {
				r, err := lane.Play(ctx, Draw(seed, c.Setting))
				r.Violations = slices.DeleteFunc(r.Violations, func(v check.Violation) bool { return len(c.Checks) > 0 && !slices.Contains(c.Checks, v.Check) })
				if ctx.Err() != nil && err != nil {
					return // it was cut short
				}
				mu.Lock()
				sum.add(r, err)
				if c.Done != nil {
					c.Done(r, err)
				}
				mu.Unlock()
			}
		})
	}
	if len(c.Controls) > 0 {
		lanes.Go(func() { sum.Controls = c.controls(ctx) })
	}
	lanes.Wait()
	sum.Took = time.Since(start)
	return sum
}

// controls plays the controls.
func (c Campaign) controls(ctx context.Context) (all []ControlResult) {
	lane := NewRunner()
	defer lane.Close()
	for _, control := range c.Controls {
		if r := control.Play(ctx, lane); ctx.Err() == nil {
			all = append(all, r)
		}
	}
	return all
}

// late reports whether no more runs should begin.
func (c Campaign) late(so Summary, took time.Duration) bool {
	limit := c.For
	if so.Played == 0 {
		limit += runLimit
	}
	return c.For > 0 && took >= limit
}

func (s *Summary) add(r Result, err error) {
	s.Seeds[1] = max(s.Seeds[1], r.Program.Seed)
	count(s.Planned, r.Program.Faults)
	count(s.Hit, r.Faults)
	if err != nil {
		s.Invalid++
		if errors.Is(err, ErrMissed) {
			s.Missed++
		} else if len(s.Errors) < mostErrors {
			s.Errors = append(s.Errors, err.Error())
		}
	}
	// What was seen in a run is there, even if one of its faults was not hit.
	if len(r.Violations) > 0 {
		s.Failures = append(s.Failures, r)
	}
	if err == nil {
		s.Played++
		s.Grants += r.Grants()
		s.Faults += len(r.Hits)
		s.Windows += r.Windows
		s.Lingered += r.Lingered
		s.Recorded.add(r.Recorded)
		s.Recalls += r.Recalls
		s.Stopped, s.ByStall = s.Stopped+r.Stopped, s.ByStall+r.ByStall
		s.Terms, s.Waited = s.Terms+r.Terms(), s.Waited+r.Waited()
		s.Promotions, s.Carried, s.LostOver = s.Promotions+r.Promotions, s.Carried+r.Carried, s.LostOver+r.LostOver
		s.Rolled.add(r.Rolled)
		if len(r.Program.Rates) > 0 {
			s.Rated++
		}
		if r.Calm {
			s.Calm++
		}
	}
}

// count counts faults by their kind.
func count(by map[fault.Kind]int, faults []string) {
	for _, line := range faults {
		if f, err := fault.Parse(line); err == nil { // the program has parsed it
			by[f.Kind]++
		}
	}
}

// The least sizes of a campaign that has to hit every kind of its faults, and to have a run of
// Holdfast without faults and stalls.
const (
	manyPlanned  = 10 // faults of one kind
	manyRuns     = 20
	manyRolled   = 30  // times that a Redis was rolled back, of which one of 3 is under a lease that is in the copy
	manyRated    = 40  // runs, of which one of 4 has clocks of other rates
	manyRecorded = 100 // runs, of which one of 12 has a killed client, or a break, that is compared with its history
	manyGrants   = 600 // of which one of 60 has a lease without faults that is held for longer than it takes to write its grant
)

// hollowKind returns what a campaign of one kind of resource did not show.
func (s Summary) hollowKind() (why []string) {
	if s.Played < manyRuns {
		return nil
	}
	if s.Setting.Kind == Election && s.Terms == 0 {
		why = append(why, "no observer of an election saw a leader")
	}
	if (s.Setting.Kind == Latch || s.Setting.Kind == Cond) && s.Waited == 0 {
		why = append(why, "no wait ended with its latch or condition")
	}
	return why
}

// hollowFailovers returns what failovers did not show.
func (s Summary) hollowFailovers() (why []string) {
	store := Program{Subject: s.Setting.Subject}.store()
	if !store.Faults.Takes || s.Played < manyRuns {
		return nil
	}
	if s.Promotions == 0 || s.Carried == 0 {
		why = append(why, fmt.Sprintf("in %d histories %d replicas became masters, and %d leases were held over that", s.Played, s.Promotions, s.Carried))
	}
	if s.Played >= manyRecorded && !store.Confirms && s.LostOver == 0 {
		why = append(why, "no failover lost a lease")
	}
	return why
}

// Hollow returns what makes the campaign show less than it seems to: no lease was granted, no trust window was
// compared with what the stores of the lab did, no lease was kept or none recalled, of one kind of event none was compared with the
// history in the stores, or of killed clients or the lines of holdfast log none, a kind of fault was planned many times and never hit, no lease was in a copy
// with which a store was rolled back or none was not, no store had a clock of another rate, order and times were never judged, or a control passed. Empty: nothing.
func (s Summary) Hollow() (why []string) {
	if s.Played > 0 && s.Grants == 0 && s.Setting.Kind != Latch {
		why = append(why, "no lease was granted")
	}
	own := s.Setting.Stores == OwnStores
	if own && hasLedger(s.Setting.Subject) && s.Played > 0 && s.Windows == 0 && s.Setting.Kind != Latch {
		why = append(why, "no trust window was compared with what the stores did")
	}
	if own && s.Setting.Subject == "holdfast" && s.Setting.Kind == "" && s.Played >= manyRuns && (s.Lingered == 0 || s.Recalls == 0) {
		why = append(why, fmt.Sprintf("in %d histories %d leases were kept and taken, and %d recalled", s.Played, s.Lingered, s.Recalls))
	}
	if own && onRedis(s.Setting.Subject) && (s.Setting.Kind == "" || s.Setting.Kind == Election) { // other later kinds are not compared
		why = append(why, s.Recorded.hollow(s.Played, s.Logged)...)
	}
	if len(pausepoint.Names()) > 0 && s.Played >= manyRuns && s.Stopped == 0 {
		why = append(why, fmt.Sprintf("no worker was paused at a point of its client in %d histories", s.Played))
	}
	why = append(why, s.hollowFailovers()...)
	why = append(why, s.hollowKind()...)
	for _, k := range fault.Kinds() {
		if s.Planned[k] >= manyPlanned && s.Hit[k] == 0 {
			why = append(why, fmt.Sprintf("%s was planned %d times and never hit", k, s.Planned[k]))
		}
	}
	if s.Hit[fault.RollBack] >= manyRolled && s.Setting.Subject == "holdfast" && (s.Rolled.Kept == 0 || s.Rolled.Lost == 0) {
		why = append(why, fmt.Sprintf("a store was rolled back %d times, which kept %d leases that clients relied on, and lost %d", s.Hit[fault.RollBack], s.Rolled.Kept, s.Rolled.Lost))
	}
	if own && onRedis(s.Setting.Subject) && s.Played >= manyRated && s.Rated == 0 && CanRateClocks() {
		why = append(why, fmt.Sprintf("in none of %d histories the clock of a store ran at another rate", s.Played))
	}
	for _, c := range s.Controls {
		if text := c.Passed(); text != "" {
			why = append(why, text)
		}
	}
	if s.Setting.Focus == "" && (Program{Subject: s.Setting.Subject}).holdfast() && s.Played >= manyRuns && s.Calm == 0 {
		why = append(why, fmt.Sprintf("none of %d histories was without faults and stalls", s.Played))
	}
	return why
}
