package endure

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"time"
)

// Plan says what to run. Zero fields have their defaults.
type Plan struct {
	// For is the length of the run without its start and its end.
	For time.Duration
	// Minute is the time from one failover, and one sample, to the next. By default it is a minute in a
	// run of 40 minutes or more, and a fortieth of a shorter one, but at least 4 s.
	Minute time.Duration
	// Store is sentinel (the default) or quorum.
	Store string
	// Population is how many leases the measured process holds and renews throughout the run (default 2000).
	Population int
	// Rate is how many operations the measured process begins in a second (default 60).
	Rate int
	// Profiles is a folder for heap profiles of the measured process, one a minute; empty: none. Each allocation is in
	// them, which makes the process slower. go tool pprof -sample_index=inuse_space -diff_base compares two.
	Profiles string
	// Seed decides what is drawn. What really happens depends on the machine as well.
	Seed uint64
}

// Stores lists the values of Plan.Store.
func Stores() []string { return []string{onSentinel, onQuorum} }

// The stores.
const (
	onSentinel = "sentinel"
	onQuorum   = "quorum"
)

// Flags adds flags for a plan to a set, with the values of the plan as defaults.
func (p *Plan) Flags(set *flag.FlagSet) {
	set.DurationVar(&p.For, "for", p.For, "the length of the run")
	set.DurationVar(&p.Minute, "minute", p.Minute, "the time between failovers; 0: a minute, less in a run shorter than 40 minutes")
	set.StringVar(&p.Store, "store", p.Store, "sentinel or quorum")
	set.IntVar(&p.Population, "population", p.Population, "leases that are held throughout; 0: 2000")
	set.IntVar(&p.Rate, "rate", p.Rate, "operations that begin in a second; 0: 60")
	set.StringVar(&p.Profiles, "profiles", p.Profiles, "a `folder` for heap profiles of the measured process, one a minute; empty: none")
	set.Uint64Var(&p.Seed, "seed", p.Seed, "of what is drawn")
}

// complete fills in the defaults.
func (p Plan) complete() (Plan, error) {
	p.Store = cmp.Or(p.Store, onSentinel)
	p.Population, p.Rate = cmp.Or(p.Population, 2000), cmp.Or(p.Rate, 60)
	if p.Minute == 0 {
		p.Minute = max(min(time.Minute, p.For/40), 4*time.Second)
	}
	switch {
	case !slices.Contains(Stores(), p.Store):
		return p, fmt.Errorf("no store %q: use one of %q", p.Store, Stores())
	case p.For < leastSamples*p.Minute:
		return p, fmt.Errorf("a run of %v has fewer than %d minutes of %v", p.For, leastSamples, p.Minute)
	}
	return p, nil
}

// warmUp is how long a run may grow: a sixth of it, ten minutes of an hour.
func (p Plan) warmUp() time.Duration { return p.For / 6 }

// judged returns the samples after the warm-up.
func (p Plan) judged(all []Sample) []Sample {
	return slices.DeleteFunc(slices.Clone(all), func(s Sample) bool { return time.Duration(s.Minute)*p.Minute < p.warmUp() })
}
