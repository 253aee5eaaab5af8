package primitivetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"pgregory.net/rapid"

	"github.com/holdfast-go/holdfast"
)

// shift is one call of Run of a job, or a fault.
type shift struct {
	step
	Fail bool
}

// plan is a program of nodes that run one job, with or without RetryFailed.
type plan struct {
	Retry  bool
	Shifts []shift
}

func drawPlan(t *rapid.T, least int) Script {
	retry := rapid.Bool().Draw(t, "retry")
	return plan{retry, rapid.SliceOfN(rapid.Custom(func(t *rapid.T) shift {
		s := shift{step: drawStep(t), Fail: rapid.IntRange(0, 3).Draw(t, "fail") == 0}
		if s.Do == "lock" || s.Do == "try" || s.Do == "break waiter" {
			s.Do = "run"
		}
		s.Sleep *= 3
		return s
	}), least, 40).Draw(t, "program")}
}

const (
	// jobPeriod and jobTTL are those of the job, in a script's time.
	jobPeriod = 10 * time.Second
	jobTTL    = 2 * time.Second
	// jobAhead is by how much the store's clock differs from that of the nodes.
	jobAhead = 3*time.Hour + 7*time.Second
)

// slotRecord is what the model knows of one slot.
type slotRecord struct {
	began   int
	done    int // runs that succeeded
	unclear int // runs whose fn returned nil and of which the store said nothing
	top     uint64
	open    *holdfast.Lease
}

// told is a Run that was told that the slot needs no run any more.
type told struct{ from, to time.Time } // the beginnings of the slots that it may have been for

// office runs a plan beside its model.
type office struct {
	world
	retry bool
	slots map[string]*slotRecord
	told  []told
}

func (o *office) period() time.Duration { return o.span(jobPeriod) }

// slotAt is the beginning of the slot of an instant.
func (o *office) slotAt(now time.Time) time.Time {
	return now.Add(jobAhead).UTC().Truncate(o.period())
}

func (o *office) record(name string) *slotRecord {
	if o.slots[name] == nil {
		o.slots[name] = &slotRecord{}
	}
	return o.slots[name]
}

func slotName(start time.Time) string { return "x@" + start.Format(time.RFC3339Nano) }

func (o *office) job(client int) *holdfast.Job {
	opts := []holdfast.JobOption{holdfast.Every(o.period()), o.ttl(jobTTL)}
	if o.retry {
		opts = append(opts, holdfast.RetryFailed())
	}
	return o.clients[client].Job("x", opts...)
}

// begins checks that the run of a slot is alone, comes after no success and, if
// the job is not to be retried, is the first.
func (o *office) begins(l *holdfast.Lease) *slotRecord {
	o.mu.Lock()
	defer o.mu.Unlock()
	name := slices.Collect(maps.Keys(l.Tokens()))[0]
	s := o.record(name)
	s.began++
	if s.began > 1 && !o.retry {
		o.failing("%s begins for the %d. time", name, s.began)
	}
	if o.isBroken(l) { // its client has not heard of it; fencing covers that
		return s
	}
	if other := s.open; other != nil && !o.isBroken(other) && other.Err() == nil && l.Err() == nil {
		o.failing("%s: two runs, with tokens %d and %d", name, other.Token(), l.Token())
	}
	if l.Token() <= s.top && l.Err() == nil {
		o.failing("%s: token %d after %d", name, l.Token(), s.top)
	}
	if s.done > 0 && l.Err() == nil {
		o.failing("%s begins although it is done", name)
	}
	s.top, s.open = max(s.top, l.Token()), l
	return s
}

// run is one call of Run.
func (o *office) run(sh shift) (ran bool, err error) {
	start := time.Now()
	first := o.slotAt(start.Add(-clockStep))
	var s *slotRecord
	var returned atomic.Bool // that fn did, with nil
	wait := o.span(sh.Wait + sh.Hold)
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	ran, err = o.job(sh.Client).Run(ctx, func(ctx context.Context) error {
		l := holdfast.LeaseFromContext(ctx)
		s = o.begins(l)
		defer o.ends(s, l)
		select {
		case <-time.After(o.span(sh.Hold)):
		case <-ctx.Done():
			return ctx.Err()
		}
		if sh.Fail {
			return errFailed
		}
		returned.Store(true)
		return nil
	})
	// A run that has returned nil is worth some patience: it is to be marked.
	if late := time.Since(start) - wait; late > jobTTL+o.late() {
		o.fail("Run returned %v after its ctx ended", late)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	last := o.slotAt(time.Now().Add(clockStep))
	switch {
	case ran && err == nil && s != nil:
		if s.done++; s.done > 1 {
			o.failing("a slot succeeds %d times", s.done)
		}
	case ran && s == nil:
		o.failing("Run says that it ran, and fn was not called")
	case ran:
		if returned.Load() {
			s.unclear++
		}
		if !errors.Is(err, errFailed) && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrUnavailable) &&
			!errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			o.failing("ran, and: %v", err)
		}
	case err == nil:
		o.told = append(o.told, told{first, last})
	case !o.refused(err, sh.Client, o.lasting(jobTTL)):
		o.failing("did not run: %v", err)
	}
	return ran, err
}

func (o *office) ends(s *slotRecord, l *holdfast.Lease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.open == l {
		s.open = nil
	}
}

// reasons checks that who was told that there is nothing to do was told the truth:
// there was a run that may have succeeded. Without RetryFailed a grant is enough, and
// that may be the caller's own, of which it did not hear in time.
func (o *office) reasons() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.told {
		found := !o.retry
		for at := t.from; !at.After(t.to) && !found; at = at.Add(o.period()) {
			s := o.record(slotName(at))
			found = s.done+s.unclear > 0
		}
		if !found {
			o.failing("a Run from %v to %v is told that it is done, and nobody has done it", t.from, t.to)
		}
	}
}

// tidy: in a slot that nobody has seen, one of all the nodes runs.
func (o *office) tidy() {
	now := time.Now()
	<-time.After(o.slotAt(now).Add(o.period()).Sub(now.Add(jobAhead)) + clockStep)
	var ran, passed atomic.Int32
	for i := range o.clients {
		o.actors.Go(func() {
			yes, err := o.run(shift{step: step{Client: i, Wait: jobPeriod}})
			switch {
			case yes && err == nil:
				ran.Add(1)
			case !yes && err == nil:
				passed.Add(1)
			case !o.disturbed():
				o.fail("at the end: %v, %v", yes, err)
			}
		})
	}
	o.actors.Wait()
	if ran.Load() == 0 && !o.disturbed() || o.virtual() && ran.Load() != 1 {
		o.fail("at the end %d ran and %d were told not to", ran.Load(), passed.Load())
	}
}

// Play checks that at most one run of a slot succeeds, that runs of a slot are
// alone, that without RetryFailed only one begins, and that nobody is told that a
// slot is done when it is not. The store's clock is not that of the nodes.
func (p plan) Play(st *Stage) []string {
	o := &office{retry: p.Retry, slots: map[string]*slotRecord{}}
	o.enter(st, 3)
	for _, net := range o.nets {
		net.Ahead = jobAhead
	}
	for _, sh := range p.Shifts {
		o.Rest()
		switch sh.Do {
		case "run":
			o.actors.Go(func() { _, _ = o.run(sh) })
		case "break holder":
			o.breaks(slotName(o.slotAt(time.Now())), true)
		default:
			o.weather(sh.step)
		}
		o.pass(sh.Sleep)
	}
	o.heal()
	o.actors.Wait()
	o.tidy()
	o.reasons()
	return o.close(slices.Collect(maps.Keys(o.slots))...)
}
