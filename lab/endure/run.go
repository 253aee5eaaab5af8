package endure

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/process"
)

// Report is what a run found.
type Report struct {
	Plan     Plan
	Samples  []Sample
	Verdicts []Verdict
	Visits   map[string]int // by how the visitors went
	Load     Tally          // of the measured process
	Others   Tally          // of the visitors that closed
	Entries  int            // of guarded counters
}

// Run runs a plan on servers that it starts, and fails the test if a promise is broken, or if something is not
// flat. The program must call process.Serve with Catalog first.
func Run(t testing.TB, p Plan) Report {
	t.Helper()
	p, err := p.complete()
	if err != nil {
		t.Fatal(err)
	}
	r := &run{t: t, plan: p, arena: newArena(t, p.Store), vault: openVault(redistest.Start(t).Addr(), "the judge")}
	defer r.vault.close()
	r.play()
	return r.report()
}

// run is one run on its way.
type run struct {
	t        testing.TB
	plan     Plan
	arena    arena
	vault    *vault
	load     *process.Process
	visitors *visitors

	samples []Sample
	end     farewell // of the measured process
}

func (r *run) play() {
	t := r.t
	s := settings{Store: r.plan.Store, URLs: r.arena.urls(), Vault: r.vault.rdb.Options().Addr, Name: measured,
		Population: r.plan.Population, Rate: r.plan.Rate, Seed: r.plan.Seed, Profiles: r.plan.Profiles}
	var err error
	if r.load, err = startMember(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	defer r.load.Kill()
	r.do(taskBegin, nil)
	s.Population, s.Rate, s.Profiles = 0, visitRate, ""
	r.visitors = startVisitors(s, t.Errorf)
	defer r.visitors.close()
	t.Logf("%v on %s, a failover and a sample each %v, %d leases held, %d operations a second", r.plan.For, r.plan.Store, r.plan.Minute, r.plan.Population, r.plan.Rate)
	t.Log(header)
	began := time.Now()
	for minute := 1; time.Duration(minute)*r.plan.Minute <= r.plan.For && !t.Failed(); minute++ {
		since := time.Now()
		r.arena.upset(minute)
		away := time.Since(since)
		elapse(t.Context(), time.Until(began.Add(time.Duration(minute)*r.plan.Minute)))
		r.sample(minute, away)
		r.do(taskGoOn, nil)
	}
	r.visitors.close()
	r.do(taskClose, &r.end)
	r.end.check(measured, t.Errorf)
	r.judgeEnd()
}

// do has the measured process do a task.
func (r *run) do(task string, result any) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), endLimit)
	defer cancel()
	if err := r.load.Do(ctx, task, nil, result); err != nil {
		r.t.Fatalf("the measured process: %s: %v", task, err)
	}
}

// sample measures the process, which then rests, and the store. Away is how long the failover took.
func (r *run) sample(minute int, away time.Duration) {
	var s Sample
	since := time.Now()
	r.do(taskRest, &s)
	s.Minute, s.Away, s.Rested, s.Visitors = minute, away, time.Since(since), r.visitors.gone()
	s.Store = r.census()
	r.samples = append(r.samples, s)
	r.t.Log(s)
}

// census counts what is in the store, and complains of what must never be there.
func (r *run) census() Census {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), endLimit)
	defer cancel()
	c, err := r.arena.census(ctx)
	if err != nil {
		r.t.Fatalf("census: %v", err)
	}
	if len(c.Eternal) > 0 {
		r.t.Errorf("keys without a TTL: %q", c.Eternal)
	}
	for _, text := range c.Overstayed {
		r.t.Error(text)
	}
	return c
}

// report judges what was measured.
func (r *run) report() Report {
	t := r.t
	rep := Report{Plan: r.plan, Samples: r.samples, Load: r.end.Load, Others: r.visitors.tally, Visits: map[string]int{}}
	for end, n := range r.visitors.ends {
		rep.Visits[string(end)] = n
	}
	bad, entries, err := r.vault.audit(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range bad {
		redistest.Broken(t, "%s", text)
	}
	rep.Entries = entries
	for _, s := range seriesOf(r.plan.judged(r.samples), r.plan) {
		v := Judge(s)
		rep.Verdicts = append(rep.Verdicts, v)
		if v.Why != "" {
			t.Errorf("not flat: %v\n\t%v", v, s.Values)
		}
	}
	for _, text := range rep.hollow() {
		t.Errorf("hollow: %s", text)
	}
	t.Log(rep)
	if !r.plan.judgesHeap() {
		t.Log("the heap is not judged: the engine of a quorum remembers attempts for ten minutes, and the warm-up is shorter than eleven")
	}
	if !r.plan.judgesNames() {
		t.Logf("the numbers of keys and the memory of the store are not judged by their series: keys of a name last %v, and the warm-up %v", usualLife, r.plan.warmUp())
	}
	return rep
}

// mostFailed: at most one operation of ten may fail. They wait for a failover to end.
const mostFailed = 10

// hollow returns what the run did not do, although it is about it.
func (rep Report) hollow() (missing []string) {
	note := func(format string, args ...any) { missing = append(missing, fmt.Sprintf(format, args...)) }
	seen := map[string]bool{}
	for _, w := range works() {
		if w.name == brokenWait && rep.Plan.Store == onQuorum {
			continue // a quorum lists no waits
		}
		if rep.Load.Works[w.name] == 0 && !seen[w.name] {
			note("the measured process has not once done %q", w.name)
		}
		seen[w.name] = true
	}
	for _, end := range visitEnds() {
		if rep.Visits[string(end)] == 0 {
			note("no visitor was %s", end)
		}
	}
	if all := rep.Load.Done + rep.Load.Refused + rep.Load.Failed; rep.Load.Failed*mostFailed > all {
		note("%d of %d operations failed: the store was away for too long", rep.Load.Failed, all)
	}
	unsettled := 0
	for _, s := range rep.Samples {
		if s.Unsettled {
			unsettled++
		}
	}
	if unsettled > len(rep.Samples)/4 {
		note("%d of %d samples are of a process that was not at rest", unsettled, len(rep.Samples))
	}
	if rep.Load.Renewals == 0 || rep.Entries == 0 || rep.Others.Granted == 0 {
		note("%d renewals, %d entries of guarded counters, %d leases of visitors", rep.Load.Renewals, rep.Entries, rep.Others.Granted)
	}
	return missing
}

// String returns the summary of a run.
func (rep Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d leases of the measured process, %d renewals; %d operations done, %d refused, %d failed; %d entries of guarded counters\n",
		rep.Load.Granted, rep.Load.Renewals, rep.Load.Done, rep.Load.Refused, rep.Load.Failed, rep.Entries)
	fmt.Fprintf(&b, "visitors, which had at least %d leases:", rep.Others.Granted)
	for _, end := range slices.Sorted(maps.Keys(rep.Visits)) {
		fmt.Fprintf(&b, " %d %s;", rep.Visits[end], end)
	}
	b.WriteString("\n")
	for _, v := range rep.Verdicts {
		fmt.Fprintln(&b, v)
	}
	return b.String()
}
