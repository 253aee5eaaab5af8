package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/fault"
)

// Control is a lock, a use of one, or a judge that is known to be wrong. It is played as a campaign plays its histories, until one of
// its checks finds the fault. If none does, the campaign shows nothing: what makes the control fail would have been missed too.
type Control struct {
	Name string
	// Beside is the subject of the campaign with which it is played.
	Beside string
	// Checks are those of which one must find it.
	Checks []string
	// Program is what is played.
	Program Program
}

// Wrong is a fault of a control that no fault of a schedule is.
type Wrong string

// The wrongs.
const (
	JudgedAsKept Wrong = "judged as kept" // a store that is rolled back is judged as one that kept all
	LosesAll     Wrong = "loses all"      // a store that is rolled back loses what is in its copy too
)

// Controls are the controls of the campaign of a subject on servers of the lab.
func Controls(beside string) (some []Control) {
	for _, c := range allControls() {
		if c.Beside == beside && (len(c.Program.Rates) == 0 || CanRateClocks()) {
			some = append(some, c)
		}
	}
	return some
}

// twoHolders are the checks that find two holders at once, or what two have done.
func twoHolders() []string { return []string{"overlap", "inside", "notified", "updates", "model"} }

func allControls() []Control {
	return []Control{
		{Name: "a Redlock, two of whose three nodes restart without their data", Beside: "holdfast-quorum", Checks: twoHolders(),
			Program: several(long(crowd("redlock", 3, NoTenure, emptied())))},
		{Name: "a quorum, two of whose three nodes restart at once without their data", Beside: "holdfast-quorum", Checks: twoHolders(),
			Program: several(crowd("holdfast-quorum", 3, NoTenure, emptied()))},
		{Name: "a quorum whose nodes have clocks that run 30 % fast", Beside: "holdfast-quorum", Checks: twoHolders(),
			Program: fast(crowd("holdfast-quorum", 3, NoRenewal, nil))},
		{Name: "a Redis that is rolled back, judged as one that kept all", Beside: "holdfast", Checks: twoHolders(),
			Program: wrong(several(crowd("holdfast", 1, Try, rolledTwice(700*time.Millisecond))), JudgedAsKept)},
		{Name: "a Redis that is rolled back and loses what was in its copy", Beside: "holdfast", Checks: twoHolders(),
			Program: wrong(crowd("holdfast", 1, NoTenure, rolledTwice(20*time.Millisecond)), LosesAll)},
		{Name: "a Redis whose clock runs 30 % fast", Beside: "holdfast", Checks: twoHolders(),
			Program: fast(crowd("holdfast", 1, NoRenewal, nil))},
	}
}

// crowd is a program of several workers that want one resource. Leases that are not renewed reach their deadlines.
func crowd(subject string, nodes int, way Way, faults fault.Schedule) Program {
	p := Program{Subject: subject, Nodes: nodes, Workers: 3, Hands: 2, TTL: 500 * time.Millisecond, Length: 2 * time.Second,
		Resources: []Resource{{Name: "counter0", Kind: Counter}}, Ways: []Way{way}}
	for _, f := range faults {
		p.Faults = append(p.Faults, f.String())
	}
	return p
}

// several makes the program want several resources, so that more leases are lost. After a roll-back one of them is free, if its
// clients only try: the leases that are in the copy have ended, but waiters that are in it would get leases, one after the other.
func several(p Program) Program {
	for i := range 3 {
		p.Resources = append(p.Resources, Resource{Name: fmt.Sprintf("counter%d", i+1), Kind: Counter})
	}
	return p
}

// long makes leases, and what is done under them, longer: work under locks other than Holdfast takes a quarter of a TTL at most, and
// two servers take their time to restart.
func long(p Program) Program {
	p.TTL = 4 * time.Second
	return p
}

func wrong(p Program, with Wrong) Program {
	p.Wrong = with
	return p
}

// fast makes the clocks of the stores run faster than the margin allows.
func fast(p Program) Program {
	for range p.Nodes {
		p.Rates = append(p.Rates, 300)
	}
	return p
}

// emptied empties two of three nodes, twice.
func emptied() (all fault.Schedule) {
	for _, at := range []time.Duration{500 * time.Millisecond, 1200 * time.Millisecond} {
		for _, node := range []string{"node1", "node2"} {
			all = append(all, fault.Fault{Kind: fault.RestartEmpty, Target: node, At: fault.After(at)})
		}
	}
	return all
}

// rolledTwice rolls a Redis back twice, by so much.
func rolledTwice(by time.Duration) (all fault.Schedule) {
	for _, at := range []time.Duration{200 * time.Millisecond, 1100 * time.Millisecond} {
		all = append(all, fault.Fault{Kind: fault.Copy, Target: "node1", At: fault.After(at)},
			fault.Fault{Kind: fault.RollBack, Target: "node1", At: fault.After(at + by)})
	}
	return all
}

// ControlResult is what came of a control.
type ControlResult struct {
	Name   string        `json:"name"`
	Played int           `json:"played"`       // histories, until it broke
	Broken bool          `json:"broken"`       // as it must be
	By     []string      `json:"by,omitempty"` // the checks that found it in the last history
	Took   time.Duration `json:"took"`
	Error  string        `json:"error,omitempty"` // of the last history that showed nothing
}

// Passed says that a control did not break; empty: it did.
func (c ControlResult) Passed() string {
	if c.Broken {
		return ""
	}
	text := fmt.Sprintf("a control passed: %s held in %d histories", c.Name, c.Played)
	if c.Error != "" {
		text += ": " + c.Error
	}
	return text
}

// mostControls is how many histories of a control are played until one breaks. Nearly every one does.
const mostControls = 8

// Play plays the control on a Runner until it breaks.
func (c Control) Play(ctx context.Context, on *Runner) ControlResult {
	return c.play(ctx, on, mostControls)
}

func (c Control) play(ctx context.Context, on *Runner, most uint64) ControlResult {
	start := time.Now()
	result := ControlResult{Name: c.Name}
	for seed := uint64(1); seed <= most && ctx.Err() == nil && !result.Broken; seed++ {
		p := c.Program
		p.Seed = seed
		r, err := on.Play(ctx, p)
		if err != nil && !errors.Is(err, ErrMissed) {
			result.Error = err.Error()
			continue
		}
		result.Played++
		result.By = r.Checks()
		result.Broken = slices.ContainsFunc(result.By, func(name string) bool { return slices.Contains(c.Checks, name) })
	}
	result.Took = time.Since(start)
	return result
}
