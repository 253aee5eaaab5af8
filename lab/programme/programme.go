// Package programme plays the whole lab and says what came of it: the holes of the
// old locks on demand and the same plays on Holdfast (package scenario), random
// faults with real processes (package live), random schedules in virtual time
// (package virtual), and bugs planted in Holdfast (package mutant).
//
// Two things make a programme fail. Holdfast broke: a promise of it was not kept.
// Or the lab failed: a hole that must show did not, a run went wrong, a planted bug
// was not found. A Report distinguishes them.
//
// A program that plays must call Serve first in main: clients, workers and the
// bubbles of virtual time are the program itself, started again.
package programme

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/lab/live"
	"github.com/holdfast-go/holdfast/lab/subject"
	"github.com/holdfast-go/holdfast/lab/virtual"
)

// Plan says what to play. A zero count leaves a part out.
type Plan struct {
	// Catalog has the locks. Make it with subject.All, and put other libraries of
	// package peer, or your own lock, beside them.
	Catalog subject.Catalog
	// Subjects are IDs of the catalog; none: all.
	Subjects []string
	// Runs is how often each scenario is played with each subject.
	Runs int
	// AtOnce is how many scenarios are played at once (default 6): they wait most of
	// the time.
	AtOnce int
	// Live are the campaigns with real processes.
	Live []Live
	// Runners is how many of their runs are played at once (default 4).
	Runners int
	// On are redis:// URLs of stores of somebody else for the live runs; none: the
	// lab starts its own. Scenarios empty and kill their stores, so with On they are
	// left out.
	On []string
	// Virtual are the campaigns in virtual time.
	Virtual []Virtual
	// Seed is the first of all campaigns.
	Seed uint64
	// Mutants is the root of the project, if bugs are to be planted; it takes the go
	// command.
	Mutants string
	// MutantFor bounds the search for one of them (default 1 min), unless it has a longer limit of its own.
	MutantFor time.Duration
	// Out is where replay files are left (default: the system's folder for such).
	Out string
	// OnEvent is called with the progress, from one goroutine at a time; nil: not.
	OnEvent func(Event)
}

// Live is a campaign with real processes.
type Live struct {
	Subject string
	Count   int           // histories
	For     time.Duration // no run begins after it, once one has shown something; 0: no bound
}

// Virtual is a campaign in virtual time.
type Virtual struct {
	World virtual.World
	Count int           // programs
	For   time.Duration // at most; 0: no bound
}

// Event is something to show while the programme is played.
type Event struct {
	Part string // scenarios, live, virtual or mutants
	Done int    // of this part
	Of   int    // 0: it is not known
	Text string // what was just done
	Bad  string // why it is bad; empty: it is as it should be
}

// Play plays the plan. It stops early, with what it has, when ctx ends.
func (p Plan) Play(ctx context.Context) Report {
	r := Report{Began: time.Now(), Seed: p.Seed, Machine: machine()}
	if p.Runs > 0 && len(p.On) > 0 {
		r.LeftOut = append(r.LeftOut, "the scenarios, which empty and kill their stores: the store is not the lab's")
	} else if p.Runs > 0 {
		r.Scenarios = p.scenarios(ctx)
	}
	for _, l := range p.Live {
		if ctx.Err() == nil {
			r.Live = append(r.Live, p.live(ctx, l))
		}
	}
	if len(p.On) == 0 && len(p.Live) > 0 && !live.CanRateClocks() {
		r.LeftOut = append(r.LeftOut, "stores whose clocks run at other rates: libfaketime is not installed")
	}
	if len(p.On) > 0 && len(p.Live) > 0 {
		r.LeftOut = append(r.LeftOut, "faults of the store in the live runs: the store is not the lab's")
	}
	for _, v := range p.Virtual {
		if ctx.Err() == nil {
			r.Virtual = append(r.Virtual, p.virtual(ctx, v))
		}
	}
	if p.Mutants != "" {
		r.Mutants = p.mutants(ctx)
	}
	if ctx.Err() != nil {
		r.LeftOut = append(r.LeftOut, "what was not done when the programme was stopped")
	}
	r.Took = time.Since(r.Began)
	return r
}

func (p Plan) report(e Event) {
	if p.OnEvent != nil {
		p.OnEvent(e)
	}
}

// wants reports whether a subject is to be played.
func (p Plan) wants(id string) bool {
	for _, s := range p.Subjects {
		if s == id {
			return true
		}
	}
	return len(p.Subjects) == 0
}

// Progress is how far a part has come, to show.
func (e Event) Progress() string {
	if e.Of == 0 || e.Of == math.MaxInt32 {
		return strconv.Itoa(e.Done)
	}
	return fmt.Sprintf("%d/%d", e.Done, e.Of)
}
