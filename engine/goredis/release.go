package goredis

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
)

// Release releases a lease or leaves the queue; see engine.Engine.
func (e *Engine) Release(ctx context.Context, r engine.Release) error {
	keys, err := e.usable(r.Resource)
	if err != nil {
		return err
	}
	args := script.Release{ID: r.ID, Token: r.Token, Withdraw: r.Withdraw, Mark: r.Mark}
	run := e.run
	if r.Mark > 0 { // like a grant, it must survive a failover
		run = e.runOrShort
	}
	value, err := run(ctx, e.rdb, e.scripts.Release(keys, args))
	if err != nil {
		return err
	}
	e.interests.done(keys, r.Resource, r.ID)
	why, err := args.Read(e.clearRest(keys, value))
	return notHeld(why, err)
}

// runOrShort is runReplicated, but returns short as its error.
func (e *Engine) runOrShort(ctx context.Context, rdb redis.UniversalClient, c script.Call) (any, error) {
	value, short, err := e.runReplicated(ctx, rdb, c)
	if err == nil {
		err = short
	}
	return value, err
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
	fits, why, err := args.Read(e.clearRest(keys, value))
	if err == nil && why.Cause == 0 && !fits {
		return engine.ErrTooHeavy
	}
	return notHeld(why, err)
}

// Break ends a lease or a wait; see engine.Engine.
func (e *Engine) Break(ctx context.Context, res engine.Resource, b engine.Break) error {
	keys, err := e.usable(res)
	if err != nil {
		return err
	}
	args := script.Break{ID: b.ID, Force: b.Force, Reason: b.Reason}
	value, err := e.run(ctx, e.rdb, e.scripts.Break(keys, args))
	if err != nil {
		return err
	}
	why, err := args.Read(e.clearRest(keys, value))
	return notHeld(why, err)
}

func notHeld(why script.Refusal, err error) error {
	if err != nil {
		return unexpected(err)
	}
	if why.Cause != 0 {
		return &engine.NotHeldError{Cause: engine.Cause(why.Cause), Reason: why.Reason}
	}
	return nil
}
