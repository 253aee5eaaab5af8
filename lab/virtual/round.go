package virtual

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/workload"
)

// errOnPurpose is returned by work that must fail.
var errOnPurpose = errors.New("the work failed")

// lease is a workload.Hold of Holdfast.
type lease struct {
	*holdfast.Lease
	step Step
}

// reader is a lease that readers of a process may share.
type reader struct{ lease }

// SharedID implements workload.Sharer.
func (r reader) SharedID() string { return r.HolderID() }

// shares reports whether the readers of a step may share a lease.
func (s Step) shares() bool {
	return s.works() && s.Lock == Readers && s.Weight == 1 && s.Way != NoTenure && s.Way != NoRenewal
}

// Until implements workload.Hold.
func (l lease) Until() time.Time { return l.Deadline() }

// Lost implements workload.Hold.
func (l lease) Lost() <-chan struct{} { return l.Done() }

// errSlotOver is the error of a job whose slot ended while another ran it.
var errSlotOver = errors.New("the slot is over")

// round acquires the lock of a step, works under it and releases it. A fault has to explain its error, see unexplained.
func (w *simulation) round(p *process, s Step) error {
	if p.gate() != nil {
		return nil
	}
	began := w.rec.Now()
	err := w.try(p, s)
	w.called(p, s.Name, began, err)
	return err
}

// try is a round of a process that is alive.
func (w *simulation) try(p *process, s Step) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.Wait)
	defer cancel()
	if s.Lock == Job || s.Lock == Retry {
		return w.slot(ctx, p, s)
	}
	at, work := s.work()
	err := p.worker.Round(ctx, at, func(ctx context.Context) (workload.Hold, error) {
		h, err := p.take(ctx, s)
		if err == nil {
			w.requireWindow(p, s, h)
			w.requireNotice(p, s.Name, h)
		}
		return h, err
	}, work)
	if !p.alive() {
		return nil
	}
	if errors.Is(err, workload.ErrStale) || errors.Is(err, workload.ErrLost) || errors.Is(err, workload.ErrDead) {
		return nil // see kept
	}
	return err
}

// requireNotice reports a violation if the lease is lost and Done is closed after the end of
// the trust window. Timers in virtual time are late only in a process that is paused at the point of one.
func (w *simulation) requireNotice(p *process, resource string, h workload.Hold) {
	go func() {
		<-h.Lost()
		now := time.Now()
		if until := h.Until(); errors.Is(h.Err(), holdfast.ErrLost) && now.After(until) && !p.justResumed(until) {
			w.violated("notified", resource, "%s was notified of a loss %v after its trust window", p.name, now.Sub(until))
		}
	}()
}

func (s Step) options() []holdfast.LockOption {
	opts := []holdfast.LockOption{holdfast.WithTTL(s.TTL)}
	if s.Linger > 0 {
		opts = append(opts, holdfast.WithLinger(s.Linger))
	}
	switch s.Way {
	case NoTenure:
		opts = append(opts, holdfast.WithoutTenure())
	case NoRenewal:
		opts = append(opts, holdfast.WithoutRenewal())
	}
	return opts
}

// take acquires the lock of a step.
func (p *process) take(ctx context.Context, s Step) (workload.Hold, error) {
	l, err := p.lock(ctx, s)
	if err != nil {
		p.requirePrompt(ctx, s)
		return nil, err
	}
	if s.shares() {
		return reader{lease{l, s}}, nil
	}
	return lease{l, s}, nil
}

// lateBy is how much later than its ctx a call may end: a fault may delay the withdrawal that it tries first.
const lateBy = 250 * time.Millisecond

// requirePrompt reports a violation if a call failed long after its ctx ended, in a program that pauses and kills no
// process. The calls of a quorum are bounded by those of its nodes.
func (p *process) requirePrompt(ctx context.Context, s Step) {
	if end, _ := ctx.Deadline(); p.w.p.World != Quorum && !p.w.has(Pause) && !p.w.has(Stop) && !p.w.has(Crash) && time.Since(end) > lateBy {
		p.w.violated("late", s.Name, "%s: a call returned %v after its ctx ended", p.name, time.Since(end))
	}
}

func (p *process) lock(ctx context.Context, s Step) (*holdfast.Lease, error) {
	opts, try := s.options(), s.Way == Try
	switch s.Lock {
	case Readers:
		rw := p.client.RWMutex(s.Name, opts...)
		switch {
		case s.Weight == 1 && try:
			return rw.TryRLock(ctx)
		case s.Weight == 1:
			return rw.RLock(ctx)
		case try:
			return rw.TryLock(ctx)
		}
		return rw.Lock(ctx)
	case Semaphore:
		sem := p.client.Semaphore(s.Name, semaphoreCapacity, opts...)
		if try {
			return sem.TryAcquire(ctx, s.Weight)
		}
		return sem.Acquire(ctx, s.Weight)
	case Election:
		return p.client.Election(s.Name, opts...).Campaign(ctx, p.name)
	}
	m := p.client.Mutex(s.Name, opts...)
	if try {
		return m.TryLock(ctx)
	}
	return m.Lock(ctx)
}

// work returns the resource of a step with its weight and capacity, and the work under its lock.
func (s Step) work() (workload.Place, workload.Work) {
	at := workload.Place{Resource: s.Name}
	switch s.Lock {
	case Stock:
		return at, workload.Sell(s.Hold)
	case Election:
		return at, workload.Append(s.Hold)
	case Semaphore:
		at.Weight, at.Capacity = s.Weight, semaphoreCapacity
		return at, workload.Stand(s.Hold)
	case Readers:
		return workload.Pair(s.Name, s.Weight, s.Hold)
	}
	return at, workload.Counter(s.Hold)
}

// retries reports whether failed runs of a job are repeated.
func (s Step) retries() bool { return strings.HasSuffix(s.Name, "1") }

// slot runs the work of a Job or a Once, which must be done once a slot. Each slot is a
// separate resource.
func (w *simulation) slot(ctx context.Context, p *process, s Step) error {
	slot := workload.Slot{Resource: s.Name, Name: func(ctx context.Context) string {
		for name, token := range holdfast.LeaseFromContext(ctx).Tokens() {
			if l := holdfast.LeaseFromContext(ctx); token == 0 || l.Token() != token {
				w.violated("tokens", name, "%s runs with token %d, of %d", p.name, l.Token(), token)
			}
			return name
		}
		return ""
	}}
	var fail error
	if s.Weight == 3 {
		fail = errOnPurpose
	}
	opts := []holdfast.JobOption{holdfast.Every(slotLength), holdfast.WithTTL(s.TTL)}
	if s.retries() {
		opts = append(opts, holdfast.RetryFailed())
	} else if s.Lock == Job {
		slot.Begins = workload.BeginsOnce
	}
	err := p.worker.Once(ctx, slot, s.Hold, fail, func(ctx context.Context, fn func(context.Context) error) (bool, error) {
		if s.Lock == Retry {
			return p.client.Once(ctx, s.Name, time.Hour, fn)
		}
		return p.client.Job(s.Name, opts...).Run(ctx, fn)
	})
	switch {
	case errors.Is(err, errOnPurpose), !p.alive():
		return nil // the work itself failed, or the process died
	case s.Lock == Job && errors.Is(err, holdfast.ErrNotAcquired) && ctx.Err() == nil:
		return fmt.Errorf("%w: %w", errSlotOver, err)
	case errors.Is(err, context.Cause(ctx)) && !passing(err):
		return nil // the work took too long
	}
	return err
}
