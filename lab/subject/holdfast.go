package subject

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/lab/stores"
)

// Holdfast is Holdfast on one Redis. Setup.Engine replaces its engine.
func Holdfast() Subject {
	return holdfastSubject("holdfast", "Holdfast on one Redis", 1, func(s Setup) (engine.Engine, error) {
		return goredis.New(s.node()), nil
	})
}

// HoldfastMemory is Holdfast on the memory engine, shared by its clients through
// Setup.Engine.
func HoldfastMemory() Subject { return holdfastOnEngine("holdfast-memory", "Holdfast in one process") }

// HoldfastOn is Holdfast on another store than Redis, through Setup.Engine.
func HoldfastOn(s stores.Store) Subject {
	return holdfastOnEngine(s.Subject(), "Holdfast on "+s.Name)
}

func holdfastOnEngine(id, title string) Subject {
	return holdfastSubject(id, title, 0, func(Setup) (engine.Engine, error) {
		return nil, fmt.Errorf("%s needs Setup.Engine", id)
	})
}

func holdfastSubject(id, title string, nodes int, engineOf func(Setup) (engine.Engine, error)) Subject {
	return Subject{ID: id, Title: title, Nodes: nodes,
		Traits: Traits{Tokens: true, Fence: OnClaims, Windows: true, ReportsLoss: true, Keeps: true, Points: true},
		Open:   func(s Setup) (Client, error) { return openHoldfast(s, engineOf) }}
}

type holdfastClient struct {
	Setup
	c *holdfast.Client
}

func openHoldfast(s Setup, engineOf func(Setup) (engine.Engine, error)) (Client, error) {
	e := s.Engine
	if e == nil {
		var err error
		if e, err = engineOf(s); err != nil {
			return nil, err
		}
	}
	if s.Point != nil {
		e = pointed{e, s}
	}
	opts := []holdfast.Option{holdfast.WithName(s.Client)}
	if s.Renewed != nil {
		opts = append(opts, holdfast.WithHooks(renewals{s.Renewed}))
	}
	c, err := holdfast.New(e, opts...)
	if err != nil {
		return nil, err
	}
	return &holdfastClient{s, c}, nil
}

func (c *holdfastClient) mutex(resource string) *holdfast.Mutex {
	return c.c.Mutex(resource, holdfast.WithTTL(c.TTL), holdfast.WithReentrancy())
}

// Acquire is Lock.
func (c *holdfastClient) Acquire(ctx context.Context, resource string) (Hold, error) {
	return leased(c.mutex(resource).Lock(ctx))
}

// Try is TryLock.
func (c *holdfastClient) Try(ctx context.Context, resource string) (Hold, error) {
	h, err := leased(c.mutex(resource).TryLock(ctx))
	if _, ok := errors.AsType[*holdfast.HeldError](err); ok {
		return nil, errors.Join(ErrBusy, err)
	}
	return h, err
}

// Close closes the Holdfast client, which releases its leases.
func (c *holdfastClient) Close() error { return c.c.Close() }

func leased(l *holdfast.Lease, err error) (Hold, error) {
	if err != nil {
		return nil, err
	}
	return lease{l}, nil
}

// lease is a Hold of Holdfast.
type lease struct{ *holdfast.Lease }

func (l lease) Until() time.Time      { return l.Deadline() }
func (l lease) Lost() <-chan struct{} { return l.Done() }

// Renew returns ErrNoRenewal: the client renews by itself.
func (l lease) Renew(context.Context) error { return ErrNoRenewal }

func (l lease) Within(ctx context.Context) context.Context {
	// Re-entry is detected by the lease's context; the end of ctx still applies.
	inner, cancel := context.WithCancelCause(l.Context())
	context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return inner
}

func (l lease) Release(ctx context.Context) error {
	err := l.Lease.Release(ctx)
	if errors.Is(err, holdfast.ErrLost) || errors.Is(err, holdfast.ErrNotHeld) {
		return errors.Join(ErrNotHeld, err)
	}
	return err
}

// pointed is an engine with a point before and after each call that changes the store.
type pointed struct {
	engine.Engine
	s Setup
}

// Acquire has the points acquire.start and acquire.done.
func (p pointed) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	if err := p.at(ctx, "acquire.start"); err != nil {
		return engine.Answer{}, err
	}
	a, err := p.Engine.Acquire(ctx, r)
	if err != nil {
		return a, err
	}
	return a, p.at(ctx, "acquire.done")
}

// Renew has the points renew.start and renew.done.
func (p pointed) Renew(ctx context.Context, batch []engine.Renewal) []error {
	all := func(err error) []error {
		errs := make([]error, len(batch))
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	if err := p.at(ctx, "renew.start"); err != nil {
		return all(err)
	}
	errs := p.Engine.Renew(ctx, batch)
	if err := p.at(ctx, "renew.done"); err != nil {
		return all(err)
	}
	return errs
}

// Release has the points release.start and release.done. A request that is delayed at
// the first is sent afterwards even if its caller no longer waits: this is a late request.
func (p pointed) Release(ctx context.Context, r engine.Release) error {
	begin := make(chan error, 1)
	late := context.WithoutCancel(ctx)
	go func() { begin <- p.at(late, "release.start") }()
	select {
	case err := <-begin:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		go func() {
			if <-begin == nil {
				_ = p.Engine.Release(late, r) // the caller has returned
			}
		}()
		return errors.Join(engine.ErrUnavailable, context.Cause(ctx))
	}
	if err := p.Engine.Release(ctx, r); err != nil {
		return err
	}
	return p.at(ctx, "release.done")
}

// at converts the error of a point to an error of an engine.
func (p pointed) at(ctx context.Context, step string) error {
	if err := p.s.at(ctx, step); err != nil {
		return errors.Join(engine.ErrUnavailable, err)
	}
	return nil
}

// renewals is a hook that reports successful renewals.
type renewals struct{ report func(Renewal) }

// Renew implements holdfast.RenewHook.
func (r renewals) Renew(e holdfast.RenewEvent) {
	if e.Err == nil {
		r.report(Renewal{Resource: e.Resource, Token: e.Token, Until: time.Now().Add(e.Left)})
	}
}
