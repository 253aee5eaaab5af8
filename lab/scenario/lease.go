package scenario

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/subject"
)

// lease is a lock held by a client, whose operations it records.
type lease struct {
	st   *scenarioRun
	who  string
	name string // holder
	hold subject.Hold

	mu    sync.Mutex
	ended bool // released, or known to be lost
}

// acquire waits for the lock and records the outcome. It returns nil and no error if ctx
// ended the wait, or if the client is dead.
func (st *scenarioRun) acquire(ctx context.Context, who string) (*lease, error) {
	return st.get(ctx, who, subject.Client.Acquire)
}

// hold is like acquire, but returns an error if the lock was not acquired.
func (st *scenarioRun) hold(ctx context.Context, who string) (*lease, error) {
	y, err := st.acquire(ctx, who)
	if err == nil && y == nil {
		err = fmt.Errorf("%s did not acquire the lock", who)
	}
	return y, err
}

// try tries once; it returns nil and no error if another holds the lock.
func (st *scenarioRun) try(ctx context.Context, who string) (*lease, error) {
	return st.get(ctx, who, subject.Client.Try)
}

// warm opens the connections of a client and loads its scripts.
func (st *scenarioRun) warm(ctx context.Context, who string) error {
	h, err := st.clients[who].Acquire(ctx, "warm-"+who)
	if err != nil {
		return err
	}
	if err := h.Release(ctx); !errors.Is(err, subject.ErrNotHeld) { // a short TTL may be over
		return err
	}
	return nil
}

type getter func(subject.Client, context.Context, string) (subject.Hold, error)

func (st *scenarioRun) get(ctx context.Context, who string, get getter) (*lease, error) {
	op := history.Op{Client: who, Kind: history.Acquire, Resource: resource, Call: st.rec.Now()}
	h, err := st.acquireRetrying(ctx, func() (subject.Hold, error) { return get(st.clients[who], ctx, resource) })
	op.Return = st.rec.Now()
	switch {
	case errors.Is(err, subject.ErrDead):
		op.Outcome, op.Return = history.Unknown, op.Call
	case err != nil && over(ctx):
		op.Outcome, op.Note = history.Failed, check.Waited
	case errors.Is(err, subject.ErrBusy):
		op.Outcome = history.Failed
	case err != nil:
		return nil, fmt.Errorf("%s acquires: %w", who, err)
	}
	if err != nil {
		st.rec.Add(op)
		return nil, nil
	}
	y := &lease{st: st, who: who, hold: h}
	st.mu.Lock()
	st.leases = append(st.leases, y)
	y.name = fmt.Sprintf("%s%d", who, len(st.leases))
	st.mu.Unlock()
	op.Outcome, op.Holder, op.Token, op.Until = history.OK, y.name, h.Token(), st.since(h.Until())
	st.rec.Add(op)
	if lost := h.Lost(); lost != nil {
		st.watchers.Go(func() { y.watch(lost) })
	}
	return y, y.at(ctx, "held")
}

// acquireRetrying tries again while the network fails and ctx lasts, as any caller does.
func (st *scenarioRun) acquireRetrying(ctx context.Context, get func() (subject.Hold, error)) (subject.Hold, error) {
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		h, err := get()
		var broken net.Error
		if !errors.Is(err, io.EOF) && !errors.As(err, &broken) || over(ctx) {
			return h, err
		}
		<-again.C
	}
}

// over reports whether ctx has ended or its deadline has passed: a connection uses the
// deadline of ctx, and its error may come before the timer of ctx fires.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// watch records the loss when the lock reports it.
func (y *lease) watch(lost <-chan struct{}) {
	select {
	case <-lost:
		y.noteLoss()
	case <-y.st.done:
	}
}

// noteLoss records, once, that the holder was notified of the loss.
func (y *lease) noteLoss() {
	if y.finish() {
		y.record(history.Op{Kind: history.Lost, Outcome: history.OK})
		_ = y.st.inj.Point(context.Background(), y.who, "lost")
	}
}

// finish reports whether this was the first end of the lease.
func (y *lease) finish() bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	first := !y.ended
	y.ended = true
	return first
}

// record adds an operation of this lease to the history. Return is now unless it is set,
// and so is Call.
func (y *lease) record(op history.Op) {
	op.Client, op.Resource, op.Holder = y.who, resource, y.name
	if op.Return == 0 {
		op.Return = y.st.rec.Now()
	}
	if op.Call == 0 {
		op.Call = op.Return
	}
	y.st.rec.Add(op)
}

// at reports a point, where faults may begin. If the client is killed there, at returns
// nil, and the next call of the client fails.
func (y *lease) at(ctx context.Context, point string) error {
	err := y.st.point(y.who)(ctx, point)
	if errors.Is(err, subject.ErrDead) {
		return nil
	}
	return err
}

// sure reports whether the lease is valid by the state of the lock. A careful holder
// checks it before it relies on the lease.
func (y *lease) sure() bool {
	err := y.hold.Err()
	if err != nil && !errors.Is(err, subject.ErrDead) {
		y.noteLoss()
	}
	return err == nil
}

// read reads the protected counter.
func (y *lease) read(ctx context.Context) (int64, error) {
	op := history.Op{Kind: history.Read, Note: check.Counter, Token: y.hold.Token(), Call: y.st.rec.Now()}
	n, accepted, err := y.st.vault.read(ctx, op.Token)
	return n, y.touched(ctx, op, n, accepted, err, "read")
}

// write sets the protected counter.
func (y *lease) write(ctx context.Context, n int64) error {
	op := history.Op{Kind: history.Write, Note: check.Counter, Token: y.hold.Token(), Call: y.st.rec.Now()}
	accepted, err := y.st.vault.write(ctx, op.Token, n)
	return y.touched(ctx, op, n, accepted, err, "wrote")
}

func (y *lease) touched(ctx context.Context, op history.Op, n int64, accepted verdict, err error, point string) error {
	if err != nil {
		return fmt.Errorf("%s: %s: %w", y.who, point, err)
	}
	op.Value, op.Outcome = n, history.OK
	if accepted == refused {
		op.Outcome, point = history.Failed, point+"-refused"
	}
	y.record(op)
	return y.at(ctx, point)
}

// add reads the counter, checks that the lease is valid, and writes one more. Between the
// check and the write is the point "checked".
func (y *lease) add(ctx context.Context) error {
	n, err := y.read(ctx)
	if err != nil {
		return err
	}
	if !y.sure() {
		return nil
	}
	if err := y.at(ctx, "checked"); err != nil {
		return err
	}
	return y.write(ctx, n+1)
}

// renew extends the lease if the lock supports it.
func (y *lease) renew(ctx context.Context) error {
	op := history.Op{Kind: history.Renew, Call: y.st.rec.Now()}
	err := y.hold.Renew(ctx)
	switch {
	case errors.Is(err, subject.ErrNoRenewal):
		y.sure() // the lock renews in the background, or never
		return nil
	case err == nil:
		op.Outcome, op.Until = history.OK, y.st.since(y.hold.Until())
	case errors.Is(err, subject.ErrNotHeld):
		op.Outcome = history.Failed
		defer y.noteLoss()
	default:
		return fmt.Errorf("%s renews: %w", y.who, err)
	}
	y.record(op)
	return y.at(ctx, "renewed")
}

// release releases the lock and records the outcome; an error of the lock is not an
// error of the run.
func (y *lease) release(ctx context.Context) error {
	op := history.Op{Kind: history.Release, Call: y.st.rec.Now(), Outcome: history.OK}
	first := y.finish()
	err := y.hold.Release(ctx)
	switch {
	case errors.Is(err, subject.ErrDead):
		return nil
	case errors.Is(err, subject.ErrNotHeld):
		op.Outcome = history.Failed
	case err != nil:
		op.Outcome = history.Unknown
	}
	if first {
		y.record(op)
	}
	return y.at(ctx, "released")
}
