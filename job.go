package holdfast

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/keepalive"
)

// A Job is work that at most one node does in each slot of time, however many
// nodes run it: a report at midnight, a message at eight. It is a handle: safe
// for concurrent use, cheap, and the same job for every client that uses its
// name and options.
//
// The store's clock determines the slot, so the clocks of the nodes do not
// matter. Each slot is a resource of its own, "name@start", which is marked as
// done for two slots, for 10 minutes or for AtLeast, whichever is longest. So a
// node that comes late, after a short run has ended, still finds the slot done,
// which a lock alone cannot ensure. A run holds a lease (WithTTL, renewed) and gets
// its Context, which is cancelled in time if the lease is lost. The tokens of
// different slots are not one sequence: fence what a run writes by slot as
// well.
//
// A run may be longer than its slot. Another node, or another Serve, may then
// run the next slot at the same time; use a Mutex inside if that must not
// happen.
type Job struct {
	c    *Client
	name string
	opts jobOptions
}

// A JobOption configures a Job: Every, Cron, AtLeast, RetryFailed, or a
// LockOption such as WithTTL, but not WithFallback. Options are checked at the
// first use of the handle, which returns ErrInvalid if one is invalid.
type JobOption interface{ applyToJob(*jobOptions) }

type jobOptions struct {
	lockOptions
	schedule jobSchedule
	zone     *time.Location // of a cron schedule; nil: UTC
	slack    *time.Duration
	atLeast  time.Duration
	retry    bool
}

type jobOption func(*jobOptions)

func (o jobOption) applyToJob(j *jobOptions) { o(j) }

// applyToJob makes LockOption a JobOption: it applies to the lease of each run.
func (o LockOption) applyToJob(j *jobOptions) {
	if o == nil {
		j.fail(optionError("a LockOption is nil"))
		return
	}
	o(&j.lockOptions)
}

// Every divides time into slots of length d (100 ms to 366 days). Slots are
// counted from Monday, 1 January of the year 1, 00:00 UTC, so hours begin on
// the hour, days at midnight UTC and weeks on Monday.
func Every(d time.Duration) JobOption {
	return jobOption(func(o *jobOptions) {
		if d < MinPeriod || d > MaxPeriod {
			o.fail(optionError("a job every %v: use %v to %v", d, MinPeriod, MaxPeriod))
			return
		}
		o.follow(every(d))
	})
}

// Cron begins a slot whenever the expression is due, in UTC or the zone of In,
// whatever the time zone of the node: "minute hour day month weekday", such as "0 8 * * 1-5",
// with lists, ranges, steps and names; or @hourly, @daily, @weekly, @monthly,
// @yearly. The syntax is that of github.com/adhocore/gronx.
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

// AtLeast keeps the mark of a slot for at least d (100 ms to MaxKeep; default
// two slots and at least 10 minutes), counted from the grant or, with
// RetryFailed, from the end of the run. If the store's clock is set back by
// less than d, or a failover leads to a server whose clock is behind by less
// than d, no slot runs again. A job without Every and Cron has one slot, which
// ends with its mark, and requires AtLeast.
func AtLeast(d time.Duration) JobOption {
	return jobOption(func(o *jobOptions) {
		if d < MinPeriod || d > MaxKeep {
			o.fail(optionError("a mark kept for %v: use %v to %v", d, MinPeriod, MaxKeep))
		}
		o.atLeast = d
	})
}

// In makes Cron use the local time of the zone instead of UTC. A time that is
// skipped when the clock is set forward is due at that moment. A time that
// occurs twice when the clock is set back is due the first time only. All nodes
// must use the same zone. Default: UTC.
func In(zone *time.Location) JobOption {
	return jobOption(func(o *jobOptions) {
		if zone == nil {
			o.fail(optionError("the time zone of a job is nil"))
		}
		o.zone = zone
	})
}

// Slack makes a Run that begins within d before the end of a slot a run of the
// next slot (default a tenth of the slot, at most 10 s; more than half of this or
// the next slot counts as half). If the clock of a node is ahead of the store's, the node starts
// its daily Run a moment before the slot. Without slack that Run finds
// yesterday's slot done, and if all nodes are ahead no node runs today's.
// Serve does not need it: it waits for the store's clock.
func Slack(d time.Duration) JobOption {
	return jobOption(func(o *jobOptions) {
		if d < 0 {
			o.fail(optionError("a slack of %v: use 0 or more", d))
		}
		o.slack = &d
	})
}

// RetryFailed lets another node run the slot again, until it ends, if the run
// returned an error, panicked, was killed (after its TTL) or lost its lease. At
// most one run succeeds, but several may begin. Without RetryFailed at most one
// run begins in a slot: the grant sets the mark.
func RetryFailed() JobOption { return jobOption(func(o *jobOptions) { o.retry = true }) }

func (o *jobOptions) follow(s jobSchedule) {
	if o.schedule != nil {
		o.fail(optionError("a job has one schedule: use Every or Cron, once"))
	}
	o.schedule = s
}

// Job returns a handle for a job. It makes no call to the store.
func (c *Client) Job(name string, opts ...JobOption) *Job {
	j := &Job{c: c, name: name, opts: jobOptions{lockOptions: lockOptions{ttl: DefaultTTL}}}
	for _, opt := range opts {
		if opt == nil {
			j.opts.fail(optionError("a JobOption is nil"))
			continue
		}
		opt.applyToJob(&j.opts)
	}
	s, isCron := j.opts.schedule.(cron)
	if isCron && j.opts.zone != nil {
		s.zone = j.opts.zone
		j.opts.schedule = s
	}
	switch err := checkName(name); {
	case err != nil:
		j.opts.err = err
	case j.opts.zone != nil && !isCron:
		j.opts.fail(optionError("a time zone (In) is for Cron only"))
	case j.opts.slack != nil && j.opts.schedule == nil:
		j.opts.fail(optionError("Slack goes with Every or Cron"))
	case j.opts.schedule == nil && j.opts.atLeast == 0:
		j.opts.fail(optionError("the job has no period: use Every or Cron, or AtLeast for a job that is done once"))
	case j.opts.schedule != nil && len(name) > MaxNameLen-longestSlotName:
		j.opts.fail(optionError("the job's name has %d bytes: use at most %d", len(name), MaxNameLen-longestSlotName))
	case j.opts.fallback != FailClosed:
		j.opts.fail(optionError("a job has no fallback: without the store it is unknown what has been done"))
	}
	return j
}

// errSlotEnded ends the wait for another node's run.
var errSlotEnded = errors.New("the slot has ended")

// Run calls fn if the current slot has not been run, and reports whether it
// did. It returns false and nil if the slot is done; without RetryFailed, also
// if the slot is being run or its run failed. With RetryFailed it waits while
// another node runs the slot, and then finds it done or calls fn itself.
//
// If ran is true and err is not nil, fn was called and did not succeed: err is
// the error of fn; ErrLost if the lease was lost meanwhile; or, with
// RetryFailed, ErrUnavailable if the store did not confirm the mark, so that fn
// may be called again in this slot. If ran is false, the errors are those of
// [Mutex.Lock]; ErrNotAcquired also if the slot ended while another node ran
// it.
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
	now, err := j.c.readClock(ctx, j.name)
	if err != nil {
		return false, err
	}
	s, err := j.opts.slot(now.store)
	if err != nil {
		return false, err
	}
	return j.run(ctx, now, s, fn)
}

// Resource returns the name of the resource of the current slot, by the store's
// clock, for use with Snapshot and Break; a Break with the holder ID "mark"
// allows the slot to run again. Errors: ErrNotAcquired with the cause of ctx
// and ErrUnavailable; ErrDenied, ErrClosed, ErrInvalid.
func (j *Job) Resource(ctx context.Context) (string, error) {
	if j.opts.err != nil || j.opts.schedule == nil {
		return j.name, j.opts.err
	}
	now, err := j.c.readClock(ctx, j.name)
	if err != nil {
		return "", err
	}
	s, err := j.opts.slot(now.store)
	if err != nil {
		return "", err
	}
	return s.name(j.name), nil
}

// run runs a slot, if it is not done.
func (j *Job) run(ctx context.Context, now storeClock, s jobSlot, fn func(ctx context.Context) error) (ran bool, err error) {
	keep := s.keep(j.opts.atLeast)
	e := j.c.newOnceRun(s.name(j.name), keep, j.opts.retry, j.opts.lockOptions)
	until := s.end
	if forgotten := s.start.Add(keep - s.end.Sub(s.start)/2); forgotten.Before(until) {
		until = forgotten // the mark of an earlier run, which may have begun half a slot early, may have ended
	}
	// The wait ends with the slot but the run does not, so this is not a deadline.
	own, end := context.WithCancelCause(ctx)
	defer end(nil)
	stop := j.c.endAt(own, now, j.name, until, func() { end(errSlotEnded) })
	l, err := e.acquireUnmarked(own)
	now = stop()
	if l == nil {
		return false, err
	}
	_, over := j.c.reached(ctx, now, j.name, until)
	if over || errors.Is(context.Cause(own), errSlotEnded) {
		_ = l.Release(ctx)
		return false, &waitError{e.name, errSlotEnded, nil}
	}
	return true, e.run(ctx, l, fn)
}

// storeClock is a reading of the store's clock.
type storeClock struct {
	clock keepalive.Clock
	store time.Time        // the store's time
	sent  keepalive.Moment // when the request was sent, by the local clocks
}

// read returns the store's time now. It may be ahead by at most the round trip.
// The wall clock covers the time for which the machine was suspended.
func (c storeClock) read() time.Time {
	now := c.clock.Now()
	return c.store.Add(max(now.Mono-c.sent.Mono, time.Duration(now.Wall-c.sent.Wall)))
}

// clockTimeout is how long the store is asked whether an instant is reached, before the local clocks are believed.
const clockTimeout = 2 * time.Second

// reached reports whether the store's clock has reached an instant. If the local clocks say so, which may have been set, it
// asks the store, and returns a new reading if that differs.
func (c *Client) reached(ctx context.Context, now storeClock, name string, at time.Time) (storeClock, bool) {
	if now.read().Before(at) {
		return now, false
	}
	ask, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()
	again, err := c.readClock(ask, name)
	if err != nil {
		return now, true
	}
	return again, !again.store.Before(at)
}

// endAt calls end when the store's clock has reached an instant, unless stop is called before, which returns the latest reading.
func (c *Client) endAt(ctx context.Context, now storeClock, name string, at time.Time, end func()) (stop func() storeClock) {
	wait, cancel := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for over := false; wait.Err() == nil && c.life.Err() == nil; {
			if now, over = c.reached(wait, now, name, at); over {
				if wait.Err() == nil {
					end()
				}
				return
			}
			c.sleepByClocks(wait, max(at.Sub(now.read()), time.Millisecond))
		}
	}()
	return func() storeClock {
		cancel()
		<-stopped
		return now
	}
}

// readClock reads the store's clock. While the store is unavailable it retries until
// ctx ends.
func (c *Client) readClock(ctx context.Context, name string) (now storeClock, err error) {
	if !c.gate.Enter() {
		return now, &waitError{name, ErrClosed, nil}
	}
	defer c.gate.Leave()
	call, cancel := until(ctx, c.life)
	defer cancel()
	now.clock = c.keep.Clock
	err, over := c.repeat(call, func(ctx context.Context) (err error) {
		now.sent = now.clock.Now()
		now.store, err = c.engine.Now(ctx)
		return err
	})
	switch {
	case over != nil:
		err = &waitError{name, over, err}
	case err != nil:
		err = opError("read the clock for", name, err)
	}
	return now, err
}
