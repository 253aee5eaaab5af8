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
	args := script.Release{ID: r.ID, Token: r.Token, Withdraw: r.Withdraw}
	call := e.scripts.Release(keys, args)
	value, err := e.run(ctx, e.rdb, call)
	if errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, redis.ErrPoolExhausted) { // it was not sent
		value, err = e.run(ctx, e.own.client(), call)
	}
	if err != nil {
		return err
	}
	cause, err := args.Read(value)
	return notHeld(cause, err)
}

// Break ends a lease or a wait by force; see engine.Engine.
func (e *Engine) Break(ctx context.Context, res engine.Resource, id string) error {
	keys, err := e.usable(res)
	if err != nil {
		return err
	}
	args := script.Break{ID: id}
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
