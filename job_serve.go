package holdfast

import (
	"context"
	"errors"
	"time"
)

// How Serve waits for a slot: it asks the store again now and then on the way, so
// that clocks that differ in rate, jump or stood still meanwhile do not matter.
const (
	nearSlot  = 10 * time.Second
	longSleep = 10 * time.Minute
)

// Serve runs every slot that begins from now on, here or on another node that
// serves the job, until ctx ends. The slot in which Serve begins is left out, so
// that a deployment at noon does not push the message of eight o'clock; to catch up
// on it call Run first. Slots that pass while a run of this Serve goes on, or while
// the store is away, are not made up for.
//
// An error of fn does not end Serve: it is logged (WithLogger), and so is a lease
// that was lost. With RetryFailed the slot is then open to the nodes that wait for
// it, and after a pause (1 s at first, doubled each time up to a minute, but a tenth
// of the slot at most) this node stands in line again. A panic of fn is passed on.
//
// Serve returns an error that is the cause of ctx, after fn has returned; or
// ErrInvalid, ErrDenied, ErrMismatch, ErrClosed as soon as one comes up.
func (j *Job) Serve(ctx context.Context, fn func(ctx context.Context) error) error {
	if j.opts.err != nil {
		return j.opts.err
	}
	if j.opts.schedule == nil {
		return optionError("the job %q has no schedule to serve: use Every or Cron", j.name)
	}
	now, err := j.c.ask(ctx, j.name)
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

// over is the error with which Serve ends.
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
		now, err := j.c.ask(ctx, j.name)
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
		j.sleep(ctx, d)
	}
}

// serve runs a slot. It returns nil to go on with the next.
func (j *Job) serve(ctx context.Context, now storeClock, s jobSlot, fn func(ctx context.Context) error) error {
	longest := min(time.Minute, s.end.Sub(s.start)/10)
	for pause := min(time.Second, longest); now.read().Before(s.end); pause = min(2*pause, longest) {
		ran, err := j.run(ctx, now, s, fn)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil, j.c.life.Err() != nil,
			errors.Is(err, ErrDenied) && !ran, errors.Is(err, ErrMismatch) && !ran:
			return err
		}
		j.c.log.Warn("holdfast: a slot of a job was not done", "job", j.name, "slot", s.start, "ran", ran, "error", err)
		if !ran || !j.opts.retry {
			return nil
		}
		j.sleep(ctx, pause)
	}
	return nil
}

// sleep waits, unless ctx or the client ends.
func (j *Job) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-j.c.life.Done():
	}
}
