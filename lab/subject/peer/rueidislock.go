package peer

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/holdfast-go/holdfast/lab/subject"
)

// Rueidislock is redis/rueidis/rueidislock with its default majority of two keys
// out of three, all on one Redis. It makes its own connections to the address of
// subject.Setup.Nodes. There are no points inside a foreign library.
func Rueidislock() subject.Subject {
	return subject.Subject{ID: "rueidislock", Title: "github.com/redis/rueidis/rueidislock", Nodes: 1,
		Traits: subject.Traits{ReportsLoss: true, Keeps: true}, Open: openRueidislock}
}

func openRueidislock(s subject.Setup) (subject.Client, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		KeyValidity:    s.TTL,
		TryNextAfter:   time.Second, // in place of 20 ms, which is too short for a busy machine
		NoLoopTracking: true,
		ClientOption:   rueidis.ClientOption{InitAddress: []string{s.Nodes[0].Options().Addr}},
	})
	if err != nil {
		return nil, err
	}
	return rueidislockClient{l}, nil
}

type rueidislockClient struct{ l rueidislock.Locker }

// Acquire is WithContext.
func (c rueidislockClient) Acquire(ctx context.Context, resource string) (subject.Hold, error) {
	return c.get(ctx, resource, c.l.WithContext)
}

// Try is TryWithContext.
func (c rueidislockClient) Try(ctx context.Context, resource string) (subject.Hold, error) {
	h, err := c.get(ctx, resource, c.l.TryWithContext)
	if errors.Is(err, rueidislock.ErrNotLocked) {
		return nil, errors.Join(subject.ErrBusy, err)
	}
	return h, err
}

// get keeps the end of ctx from the lock once it is held: with this library a
// lock ends with the ctx under which it was requested.
func (c rueidislockClient) get(ctx context.Context, resource string,
	open func(context.Context, string) (context.Context, context.CancelFunc, error)) (subject.Hold, error) {
	whole, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	held, cancel, err := open(whole, resource)
	if err != nil {
		stop()
		end(nil)
		return nil, err
	}
	stop()
	return rueidislockHold{held, cancel}, nil
}

// Close closes the client and its connections.
func (c rueidislockClient) Close() error {
	c.l.Close()
	return nil
}

// rueidislockHold is a context that ends with the hold, and the function that
// ends it.
type rueidislockHold struct {
	ctx    context.Context
	cancel context.CancelFunc
}

func (h rueidislockHold) Token() uint64         { return 0 }
func (h rueidislockHold) Until() time.Time      { return time.Time{} }
func (h rueidislockHold) Lost() <-chan struct{} { return h.ctx.Done() }

func (h rueidislockHold) Err() error {
	if h.ctx.Err() != nil {
		return subject.ErrNotHeld
	}
	return nil
}

func (h rueidislockHold) Within(ctx context.Context) context.Context { return ctx }

func (h rueidislockHold) Renew(context.Context) error { return subject.ErrNoRenewal }

// Release returns no error: the library's function has no result.
func (h rueidislockHold) Release(context.Context) error {
	err := h.Err()
	h.cancel()
	return err
}
