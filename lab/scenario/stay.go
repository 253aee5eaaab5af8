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

// stay is one time in possession, and what is written down of it.
type stay struct {
	st   *scenarioRun
	who  string
	name string // holder
	hold subject.Hold

	mu    sync.Mutex
	ended bool // released, or known to be lost
}

// acquire waits for the lock and records the outcome. It returns nil and
// no error if it was not got because ctx ended, or because the client is dead.
func (st *scenarioRun) acquire(ctx context.Context, who string) (*stay, error) {
	return st.get(ctx, who, subject.Client.Acquire)
}

// hold waits for the lock; it is an error of the run not to get it.
func (st *scenarioRun) hold(ctx context.Context, who string) (*stay, error) {
	y, err := st.acquire(ctx, who)
	if err == nil && y == nil {
		err = fmt.Errorf("%s did not get it", who)
	}
	return y, err
}

// try tries once; it returns nil and no error if another holds the lock.
func (st *scenarioRun) try(ctx context.Context, who string) (*stay, error) {
	return st.get(ctx, who, subject.Client.Try)
}

// warm makes a client's connections, and makes servers know its scripts.
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

func (st *scenarioRun) get(ctx context.Context, who string, get getter) (*stay, error) {
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
	y := &stay{st: st, who: who, hold: h}
	st.mu.Lock()
	st.stays = append(st.stays, y)
	y.name = fmt.Sprintf("%s%d", who, len(st.stays))
	st.mu.Unlock()
	op.Outcome, op.Holder, op.Token, op.Until = history.OK, y.name, h.Token(), st.since(h.Until())
	st.rec.Add(op)
	if lost := h.Lost(); lost != nil {
		st.watchers.Go(func() { y.watch(lost) })
	}
	return y, y.at(ctx, "held")
}

// acquireRetrying tries again as long as only the network fails, as any caller does.
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

// over reports whether ctx has ended, or should have: connections know its deadline
// and may be quicker than its timer.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// watch records when the lock reports its loss.
func (y *stay) watch(lost <-chan struct{}) {
	select {
	case <-lost:
		y.noteLoss()
	case <-y.st.done:
	}
}

// noteLoss records, once, that the holder was notified of the loss.
func (y *stay) noteLoss() {
	if y.finish() {
		y.record(history.Op{Kind: history.Lost, Outcome: history.OK})
		_ = y.st.inj.Point(context.Background(), y.who, "lost")
	}
}

// finish reports whether this was the first end of the stay.
func (y *stay) finish() bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	first := !y.ended
	y.ended = true
	return first
}

// record adds an operation of this stay that happens now.
func (y *stay) record(op history.Op) {
	op.Client, op.Resource, op.Holder = y.who, resource, y.name
	if op.Return == 0 {
		op.Return = y.st.rec.Now()
	}
	if op.Call == 0 {
		op.Call = op.Return
	}
	y.st.rec.Add(op)
}

// at comes to a point of the play. A client that was killed there gets
// the error of its next call.
func (y *stay) at(ctx context.Context, point string) error {
	err := y.st.point(y.who)(ctx, point)
	if errors.Is(err, subject.ErrDead) {
		return nil
	}
	return err
}

// sure is what a careful holder checks before it relies on the lock.
func (y *stay) sure() bool {
	err := y.hold.Err()
	if err != nil && !errors.Is(err, subject.ErrDead) {
		y.noteLoss()
	}
	return err == nil
}

// read looks at the protected counter.
func (y *stay) read(ctx context.Context) (int64, error) {
	op := history.Op{Kind: history.Read, Note: check.Counter, Token: y.hold.Token(), Call: y.st.rec.Now()}
	n, accepted, err := y.st.vault.read(ctx, op.Token)
	return n, y.touched(ctx, op, n, accepted, err, "read")
}

// write sets the protected counter.
func (y *stay) write(ctx context.Context, n int64) error {
	op := history.Op{Kind: history.Write, Note: check.Counter, Token: y.hold.Token(), Call: y.st.rec.Now()}
	accepted, err := y.st.vault.write(ctx, op.Token, n)
	return y.touched(ctx, op, n, accepted, err, "wrote")
}

func (y *stay) touched(ctx context.Context, op history.Op, n int64, accepted verdict, err error, point string) error {
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

// add is the work of most plays: read, look whether the lock is still held, and
// write one more. Between the look and the write lies the point "checked".
func (y *stay) add(ctx context.Context) error {
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

// renew extends the hold, if the lock has that.
func (y *stay) renew(ctx context.Context) error {
	op := history.Op{Kind: history.Renew, Call: y.st.rec.Now()}
	err := y.hold.Renew(ctx)
	switch {
	case errors.Is(err, subject.ErrNoRenewal):
		y.sure() // it renews by itself, or not at all
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

// release gives the lock back. What it answers is for the checks.
func (y *stay) release(ctx context.Context) error {
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
