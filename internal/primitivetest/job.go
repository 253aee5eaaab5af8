package primitivetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/random"
)

// jobStep is one step of a jobProgram: a call of Run, or a fault.
type jobStep struct {
	step
	Fail bool
}

// jobProgram is a script of clients that run one job, with or without RetryFailed.
type jobProgram struct {
	Retry bool
	Steps []jobStep
}

func drawJob(t *random.T, least int) Script {
	retry := random.Bool().Draw(t, "retry")
	return jobProgram{retry, random.SliceOfN(random.Custom(func(t *random.T) jobStep {
		s := jobStep{step: drawStep(t), Fail: random.IntRange(0, 3).Draw(t, "fail") == 0}
		if s.Do == "lock" || s.Do == "try" || s.Do == "break waiter" {
			s.Do = "run"
		}
		s.Sleep *= 3
		return s
	}), least, 40).Draw(t, "program")}
}

const (
	// jobPeriod and jobTTL are durations of a script.
	jobPeriod = 10 * time.Second
	jobTTL    = 2 * time.Second
	// jobAhead is how far the store's clock is ahead of that of the clients.
	jobAhead = 3*time.Hour + 7*time.Second
)

// slotRecord is one slot in the model.
type slotRecord struct {
	began   int             // runs that began
	done    int             // runs that succeeded
	unclear int             // runs whose fn returned nil and whose outcome in the store is unknown
	top     uint64          // highest token
	open    *holdfast.Lease // of the present run
}

// skippedRun is a call of Run that returned false and nil: its slot needs no run. The slot
// starts between from and to.
type skippedRun struct{ from, to time.Time }

// jobRun runs a jobProgram beside its model.
type jobRun struct {
	simulation
	retry   bool
	slots   map[string]*slotRecord
	skipped []skippedRun
}

func (o *jobRun) period() time.Duration { return o.span(jobPeriod) }

// slotAt returns the start of the slot at an instant of the clients' clock.
func (o *jobRun) slotAt(now time.Time) time.Time {
	return now.Add(jobAhead).UTC().Truncate(o.period())
}

func (o *jobRun) record(name string) *slotRecord {
	if o.slots[name] == nil {
		o.slots[name] = &slotRecord{}
	}
	return o.slots[name]
}

func slotName(start time.Time) string { return "x@" + start.Format(time.RFC3339Nano) }

func (o *jobRun) job(client int) *holdfast.Job {
	opts := []holdfast.JobOption{holdfast.Every(o.period()), holdfast.Slack(0), o.ttl(jobTTL)}
	if o.retry {
		opts = append(opts, holdfast.RetryFailed())
	}
	return o.clients[client].Job("x", opts...)
}

// begins records that a run begins. It checks that no other run of its slot goes on or has
// succeeded and, without RetryFailed, that none has begun.
func (o *jobRun) begins(l *holdfast.Lease) *slotRecord {
	o.mu.Lock()
	defer o.mu.Unlock()
	name := slices.Collect(maps.Keys(l.Tokens()))[0]
	s := o.record(name)
	s.began++
	if s.began > 1 && !o.retry {
		o.failing("%s begins for the %d. time", name, s.began)
	}
	if o.isBroken(l) { // only fencing is promised until its client receives the break
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

// run calls Run and checks the result.
func (o *jobRun) run(sh jobStep) (ran bool, err error) {
	start := time.Now()
	first := o.slotAt(start.Add(-clockStep))
	var s *slotRecord
	var returned atomic.Bool // whether fn returned nil
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
	// After fn has returned nil, Run may take longer to set the mark.
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
		o.failing("Run reported that it ran, and fn was not called")
	case ran:
		if returned.Load() {
			s.unclear++
		}
		if !errors.Is(err, errFailed) && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, holdfast.ErrUnavailable) &&
			!errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			o.failing("ran, and: %v", err)
		}
	case err == nil:
		o.skipped = append(o.skipped, skippedRun{first, last})
	case !o.refused(err, sh.Client, o.ttlOf(jobTTL)):
		o.failing("did not run: %v", err)
	}
	return ran, err
}

func (o *jobRun) ends(s *slotRecord, l *holdfast.Lease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.open == l {
		s.open = nil
	}
}

// checkSkips checks that for each skippedRun a run of the slot may have succeeded. Without
// RetryFailed it checks nothing: a grant ends the slot, even a grant to the same caller that
// did not arrive in time.
func (o *jobRun) checkSkips() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.skipped {
		found := !o.retry
		for at := t.from; !at.After(t.to) && !found; at = at.Add(o.period()) {
			s := o.record(slotName(at))
			found = s.done+s.unclear > 0
		}
		if !found {
			o.failing("a Run from %v to %v reported that it is done, and no run has done it", t.from, t.to)
		}
	}
}

// finish checks that in a new slot exactly one client runs the job.
func (o *jobRun) finish() {
	now := time.Now()
	<-time.After(o.slotAt(now).Add(o.period()).Sub(now.Add(jobAhead)) + clockStep)
	var ran, passed atomic.Int32
	for i := range o.clients {
		o.actors.Go(func() {
			yes, err := o.run(jobStep{step: step{Client: i, Wait: jobPeriod}})
			switch {
			case yes && err == nil:
				ran.Add(1)
			case !yes && err == nil:
				passed.Add(1)
			default:
				o.failCalm("at the end: %v, %v", yes, err)
			}
		})
	}
	o.actors.Wait()
	if ran.Load() == 0 || o.virtual() && ran.Load() != 1 {
		o.failCalm("at the end %d ran and %d skipped", ran.Load(), passed.Load())
	}
}

// Play checks that at most one run of a slot succeeds, that runs of a slot do not overlap,
// that without RetryFailed only one begins, and that no Run reports a slot as done when
// it is not. The store's clock differs from that of the clients.
func (p jobProgram) Play(st *Environment) []string {
	o := &jobRun{retry: p.Retry, slots: map[string]*slotRecord{}}
	o.openClients(st, 3)
	for _, net := range o.nets {
		net.Ahead = jobAhead
	}
	for _, sh := range p.Steps {
		o.Idle()
		switch sh.Do {
		case "run":
			o.actors.Go(func() { _, _ = o.run(sh) })
		case "break holder":
			o.breakLease(slotName(o.slotAt(time.Now())), true)
		default:
			o.setNetwork(sh.step)
		}
		o.elapse(sh.Sleep)
	}
	o.healAll()
	o.actors.Wait()
	o.finish()
	o.checkSkips()
	return o.close(slices.Collect(maps.Keys(o.slots))...)
}
