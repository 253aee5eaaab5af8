package holdfast

import (
	"context"
	"errors"
	"time"
)

// Job is work that at most one node does in each slot of time, on whatever
// number of nodes it is started: a report at midnight, a message at eight. It is
// a handle: safe for concurrent use, cheap, and the same job for every client
// that names it with the same options.
//
// The slot comes from the store's clock, so the clocks of the nodes do not matter.
// Each slot is a resource of its own, "name@start", which is marked as done; the
// mark lasts for two slots and 10 minutes at least, or AtLeast. So a node that
// comes late, after a short run has ended, finds it done. That is what a lock alone
// cannot do. The run itself holds a lease (WithTTL, renewed), whose Context it
// gets: it is cancelled in time when the lease is lost. The tokens of different
// slots are not in one sequence: what a run writes is best fenced by slot too.
//
// A run that is longer than its slot goes on. The next slot may be run meanwhile by
// another node, or by another Serve; use a Mutex inside if it must not.
type Job struct {
	c    *Client
	name string
	opts jobOptions
}

// JobOption configures a Job: Every, Cron, AtLeast, RetryFailed, or one of the
// options of a lock, like WithTTL; not WithFallback. Options are checked at the first use of the
// handle and come back as errors that are ErrInvalid.
type JobOption interface{ applyToJob(*jobOptions) }

type jobOptions struct {
	lockOptions
	schedule jobSchedule
	atLeast  time.Duration
	retry    bool
}

type jobOption func(*jobOptions)

func (o jobOption) applyToJob(j *jobOptions) { o(j) }

// applyToJob makes the options of a lock options of the lease of each run.
func (o LockOption) applyToJob(j *jobOptions) {
	if o == nil {
		j.fail(optionError("a LockOption is nil"))
		return
	}
	o(&j.lockOptions)
}

// Every divides time into slots of d (100 ms to 366 days). They are counted from
// Monday, 1 January of the year 1, 00:00 UTC, so hours and days begin on the hour
// and at midnight UTC, and weeks on Monday.
func Every(d time.Duration) JobOption {
	return jobOption(func(o *jobOptions) {
		if d < MinPeriod || d > MaxPeriod {
			o.fail(optionError("a job every %v: use %v to %v", d, MinPeriod, MaxPeriod))
			return
		}
		o.follow(every(d))
	})
}

// Cron begins a slot whenever the expression is due, in UTC whatever the time zone
// of the node: "minute hour day month weekday", like "0 8 * * 1-5", with lists,
// ranges, steps and names; or @hourly, @daily, @weekly, @monthly, @yearly. It is
// read as github.com/adhocore/gronx does.
func Cron(expr string) JobOption {
	return jobOption(func(o *jobOptions) {
		s, err := cronOf(expr)
		if err != nil {
			o.fail(err)
			return
		}
		o.follow(s)
	})
}

// AtLeast keeps the mark of a slot for at least d from the grant or, with
// RetryFailed, from the end of the run (100 ms to MaxKeep; default two slots and
// at least 10 minutes). A longer one allows for more skew: a store whose clock is
// set back, or a failover to one whose clock is behind, by less than d does not
// run a slot again. A job with neither Every nor Cron has one slot that ends with
// its mark; there AtLeast is required.
func AtLeast(d time.Duration) JobOption {
	return jobOption(func(o *jobOptions) {
		if d < MinPeriod || d > MaxKeep {
			o.fail(optionError("a mark kept for %v: use %v to %v", d, MinPeriod, MaxKeep))
		}
		o.atLeast = d
	})
}

// RetryFailed lets another node run the slot again, while it lasts, if the run
// returned an error, panicked, was killed (after its TTL) or lost its lease. So at
// most one run succeeds, and several may begin. Without it at most one run begins
// in a slot: the mark is set at the grant.
func RetryFailed() JobOption { return jobOption(func(o *jobOptions) { o.retry = true }) }

func (o *jobOptions) follow(s jobSchedule) {
	if o.schedule != nil {
		o.fail(optionError("a job has one schedule: use Every or Cron, once"))
	}
	o.schedule = s
}

// Job returns a handle on a job. It costs nothing until it is used.
func (c *Client) Job(name string, opts ...JobOption) *Job {
	j := &Job{c: c, name: name, opts: jobOptions{lockOptions: lockOptions{ttl: DefaultTTL}}}
	for _, opt := range opts {
		if opt == nil {
			j.opts.fail(optionError("a JobOption is nil"))
			continue
		}
		opt.applyToJob(&j.opts)
	}
	switch err := checkName(name); {
	case err != nil:
		j.opts.err = err
	case j.opts.schedule == nil && j.opts.atLeast == 0:
		j.opts.fail(optionError("the job has no period: use Every or Cron, or AtLeast for a job that is done once"))
	case j.opts.schedule != nil && len(name) > MaxNameLen-longestSlotName:
		j.opts.fail(optionError("the job's name has %d bytes: use at most %d", len(name), MaxNameLen-longestSlotName))
	case j.opts.fallback != FailClosed:
		j.opts.fail(optionError("a job has no fallback: without the store nobody knows what has been done"))
	}
	return j
}

// errSlotEnded ends the wait for a run by others.
var errSlotEnded = errors.New("the slot has ended")

// Run runs fn if nobody has run the current slot, and tells whether it did. It
// returns false and nil if the slot has been done; without RetryFailed, also if it
// is being done or was tried in vain. With RetryFailed it waits while another node
// runs, and then finds the slot done or runs fn itself.
//
// With ran true and an error, fn was called and did not succeed: the error is that
// of fn; or ErrLost if the lease was lost meanwhile; or, with RetryFailed,
// ErrUnavailable if the store did not confirm the mark, so that fn may be run again
// in this slot. With ran false the errors are those of Mutex.Lock; ErrNotAcquired
// also if the slot ended while another node ran.
func (j *Job) Run(ctx context.Context, fn func(ctx context.Context) error) (ran bool, err error) {
	switch {
	case j.opts.err != nil:
		return false, j.opts.err
	case j.opts.schedule == nil:
		e := j.c.newOnceRun(j.name, j.opts.atLeast, j.opts.retry, j.opts.lockOptions)
		l, err := e.acquireUnmarked(ctx)
		if l == nil {
			return false, err
		}
		return true, e.run(ctx, l, fn)
	}
	now, err := j.c.ask(ctx, j.name)
	if err != nil {
		return false, err
	}
	s, err := j.opts.schedule.at(now.store)
	if err != nil {
		return false, err
	}
	return j.run(ctx, now, s, fn)
}

// Resource names the resource of the current slot, by the store's clock: for
// Snapshot, and for Break, which with the holder ID "mark" makes the slot open
// again. Errors: ErrNotAcquired together with the cause of ctx and
// ErrUnavailable; ErrDenied, ErrClosed, ErrInvalid.
func (j *Job) Resource(ctx context.Context) (string, error) {
	if j.opts.err != nil || j.opts.schedule == nil {
		return j.name, j.opts.err
	}
	now, err := j.c.ask(ctx, j.name)
	if err != nil {
		return "", err
	}
	s, err := j.opts.schedule.at(now.store)
	if err != nil {
		return "", err
	}
	return s.name(j.name), nil
}

// run runs a slot, if it is still to be done.
func (j *Job) run(ctx context.Context, now storeClock, s jobSlot, fn func(ctx context.Context) error) (ran bool, err error) {
	keep := s.keep(j.opts.atLeast)
	e := j.c.newOnceRun(s.name(j.name), keep, j.opts.retry, j.opts.lockOptions)
	// The wait ends with the slot, but not the run: so this is no deadline.
	own, end := context.WithCancelCause(ctx)
	defer end(nil)
	t := time.AfterFunc(s.end.Sub(now.read()), func() { end(errSlotEnded) })
	l, err := e.acquireUnmarked(own)
	inTime := t.Stop()
	switch {
	case l == nil:
		return false, err
	case !inTime, !now.read().Before(s.start.Add(keep)):
		// After a long pause: the mark of an earlier run may have ended.
		_ = l.Release(ctx)
		return false, &waitError{e.name, errSlotEnded, nil}
	}
	return true, e.run(ctx, l, fn)
}

// storeClock is the store's time as this process knows it.
type storeClock struct {
	store time.Time // as it was read
	asked time.Time // when the reading was asked for, by this process's clock
}

// read returns what the store's clock shows now, or a little more: the time of
// the round trip. A machine that was suspended is seen by its wall clock.
func (c storeClock) read() time.Time {
	now := time.Now()
	return c.store.Add(max(now.Sub(c.asked), now.Round(0).Sub(c.asked.Round(0))))
}

// ask reads the store's clock. A store that is away is ridden out until ctx ends.
func (c *Client) ask(ctx context.Context, name string) (storeClock, error) {
	if !c.gate.enter() {
		return storeClock{}, &waitError{name, ErrClosed, nil}
	}
	defer c.gate.leave()
	call, cancel := until(ctx, c.life)
	defer cancel()
	var slow backoff
	var trouble error
	for {
		switch {
		case ctx.Err() != nil:
			return storeClock{}, &waitError{name, context.Cause(ctx), trouble}
		case c.life.Err() != nil:
			return storeClock{}, &waitError{name, ErrClosed, nil}
		}
		asked := time.Now()
		once, done := context.WithTimeout(call, askTimeout)
		now, err := c.engine.Now(once)
		done()
		switch {
		case err == nil:
			return storeClock{now, asked}, nil
		case !errors.Is(err, ErrUnavailable):
			return storeClock{}, opError("read the clock for", name, err)
		}
		trouble = err
		slow.pause(call)
	}
}
