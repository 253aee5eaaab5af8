package holdfast

import (
	"context"
	"errors"
	"time"
)

// While Serve waits for a slot it reads the store's clock again from time to
// time, so that local clocks that drift, jump or stop do not matter.
const (
	nearSlot  = 10 * time.Second
	longSleep = 10 * time.Minute
)

// Serve runs every slot that begins from now on, here or on another node that
// serves the job, until ctx ends. It leaves out the slot in which it is called,
// so that a deployment at noon does not push the eight o'clock message; to
// catch up, call Run first. Slots that pass during a run of this Serve, or while
// the store is unavailable, are not run later.
//
// An error of fn, or the loss of its lease, does not end Serve and is logged
// (see [WithLogger]). With RetryFailed the slot is then open to the nodes that
// wait for it, and this node queues again after a pause: 1 s at first, doubled
// each time up to a minute, but at most a tenth of the slot. A panic of fn is
// not recovered.
//
// Serve returns an error that matches the cause of ctx, after fn has returned;
// and ErrInvalid, ErrDenied, ErrMismatch or ErrClosed as soon as one occurs.
func (j *Job) Serve(ctx context.Context, fn func(ctx context.Context) error) error {
	if j.opts.err != nil {
		return j.opts.err
	}
	if j.opts.schedule == nil {
		return optionError("the job %q has no schedule to serve: use Every or Cron", j.name)
	}
	now, err := j.c.readClock(ctx, j.name)
	if err != nil {
		return j.over(ctx, err)
	}
	s, err := j.opts.schedule.at(now.store)
	for err == nil {
		if now, s, err = j.next(ctx, s); err == nil {
			err = j.serve(ctx, now, s, fn)
		}
	}
	return j.over(ctx, err)
}

// over returns the error with which Serve ends.
func (j *Job) over(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case cause == nil:
		return err
	case errors.Is(err, cause):
		err = nil
	}
	return opError("serve", j.name, errors.Join(cause, err))
}

// next waits until a slot after s has begun, by the store's clock.
func (j *Job) next(ctx context.Context, s jobSlot) (storeClock, jobSlot, error) {
	for {
		now, err := j.c.readClock(ctx, j.name)
		if err != nil {
			return now, s, err
		}
		present, err := j.opts.schedule.at(now.store)
		if err != nil || present.start.After(s.start) {
			return now, present, err
		}
		d := max(present.end.Sub(now.store), time.Millisecond)
		if d > nearSlot {
			d = min(d*9/10, longSleep)
		}
		j.c.sleepByClocks(ctx, d)
	}
}

// serve runs a slot. It returns nil if Serve continues with the next.
func (j *Job) serve(ctx context.Context, now storeClock, s jobSlot, fn func(ctx context.Context) error) error {
	longest := min(time.Minute, s.end.Sub(s.start)/10)
	for pause := min(time.Second, longest); now.store.Before(s.end); pause = min(2*pause, longest) {
		ran, err := j.run(ctx, now, s, fn)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil, j.c.life.Err() != nil,
			!ran && (errors.Is(err, ErrInvalid) || errors.Is(err, ErrDenied) || errors.Is(err, ErrMismatch)):
			return err
		}
		j.c.log.Warn("holdfast: job slot not done", "resource", j.name, "slot", s.start, "ran", ran, "err", err)
		if !ran || !j.opts.retry {
			return nil
		}
		j.c.sleep(ctx, pause)
		if now, err = j.c.readClock(ctx, j.name); err != nil {
			return err
		}
	}
	return nil
}
