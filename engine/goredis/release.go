package goredis

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis/script"
)

// Release gives a lease back or leaves the queue; see engine.Engine. If the
// caller's pool has no connection to give, it uses the engine's own.
func (e *Engine) Release(ctx context.Context, r engine.Release) error {
	keys, err := e.usable(r.Resource)
	if err != nil {
		return err
	}
	args := script.Release{ID: r.ID, Token: r.Token, Withdraw: r.Withdraw, Mark: r.Mark}
	call := e.scripts.Release(keys, args)
	rdb := e.rdb
	if cb := e.combiners.single; (cb == nil || !cb.flows()) && starved(rdb) {
		rdb = e.own.client()
	}
	run := e.run
	if r.Mark > 0 { // it has to outlive the master as a grant does
		run = e.runPledged
	}
	value, err := run(ctx, rdb, call)
	if errors.Is(err, redis.ErrPoolTimeout) { // it was not sent
		value, err = run(ctx, e.own.client(), call)
	}
	if err != nil {
		return err
	}
	e.audience.dismiss(keys, r.Resource, r.ID)
	cause, err := args.Read(value)
	return notHeld(cause, err)
}

// runPledged is run with an error also if too few replicas have the effect.
func (e *Engine) runPledged(ctx context.Context, rdb redis.UniversalClient, c script.Call) (any, error) {
	value, short, err := e.pledged(ctx, rdb, c)
	if err == nil {
		err = short
	}
	return value, err
}

// starved tells whether a command would have to wait for a connection: others
// may hold them all for long, and a lease must not last until they are done.
func starved(rdb redis.UniversalClient) bool {
	c, ok := rdb.(*redis.Client)
	if !ok {
		return false
	}
	s := c.PoolStats()
	return s.IdleConns == 0 && int(s.TotalConns) >= c.Options().PoolSize
}

// Resize lowers the weight of a lease; see engine.Engine.
func (e *Engine) Resize(ctx context.Context, res engine.Resource, h engine.Held, weight int) error {
	keys, err := e.usable(res)
	if err != nil {
		return err
	}
	args := script.Resize{ID: h.ID, Token: h.Token, Weight: weight}
	value, err := e.run(ctx, e.rdb, e.scripts.Resize(keys, args))
	if err != nil {
		return err
	}
	fits, cause, err := args.Read(value)
	if err == nil && cause == 0 && !fits {
		return engine.ErrTooHeavy
	}
	return notHeld(cause, err)
}

// Break ends a lease or a wait; see engine.Engine.
func (e *Engine) Break(ctx context.Context, res engine.Resource, b engine.Break) error {
	keys, err := e.usable(res)
	if err != nil {
		return err
	}
	args := script.Break{ID: b.ID, Force: b.Force}
	value, err := e.run(ctx, e.rdb, e.scripts.Break(keys, args))
	if err != nil {
		return err
	}
	cause, err := args.Read(value)
	return notHeld(cause, err)
}

func notHeld(cause int, err error) error {
	if err != nil {
		return unexpected(err)
	}
	if cause != 0 {
		return &engine.NotHeldError{Cause: engine.Cause(cause)}
	}
	return nil
}
