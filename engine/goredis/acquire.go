package goredis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
)

// Acquire requests a lease; see engine.Engine.
func (e *Engine) Acquire(ctx context.Context, r engine.Request) (engine.Answer, error) {
	keys, err := e.usable(r.Resource)
	if err != nil {
		return engine.Answer{}, err
	}
	if err := checkRequest(r); err != nil {
		return engine.Answer{}, err
	}
	args := script.Acquire{
		ID: r.ID, Kind: string(r.Kind), Capacity: r.Capacity, Weight: r.Weight,
		TTL: r.TTL, Reserve: r.Reserve, Ballot: r.Ballot, Queue: r.Queue, Reason: r.Reason, Yields: r.Yields.ID,
		Mark: r.Mark, Turn: r.Turn.ID, Place: r.Turn.Token, Look: !e.reaches(r.Resource.Prefix, r.ID),
	}
	var reply any
	var short error // why a grant does not count yet
	switch c := e.scripts.Acquire(keys, args); {
	case e.clients.due(r.Resource.Prefix, r.Client):
		reply, short, err = e.introduce(ctx, r, c)
	case e.options.replicas.n > 0:
		reply, short, err = e.runReplicated(ctx, e.rdb, c)
	default:
		reply, err = e.run(ctx, e.rdb, c)
	}
	if err != nil {
		return engine.Answer{}, err
	}
	reply, more := script.More(reply)
	got, err := args.Read(reply)
	if err != nil {
		return engine.Answer{}, unexpected(err)
	}
	switch {
	case more && got.Status == script.Granted:
		e.queueClear(keys)
	case more:
		// A holder or waiter in the way may have expired, so the request is sent again until
		// all is cleared. If such a call fails, its outcome is unknown: it may have been
		// granted.
		return e.Acquire(ctx, r)
	}
	if got.Status == script.Granted && short != nil {
		return engine.Answer{}, short
	}
	switch {
	case got.Status == script.Queued:
		e.interests.need(keys, r.Resource, r.ID, engine.WaiterLife)
	case got.Status == script.Busy && r.Queue && r.Turn.ID != "":
		e.interests.need(keys, r.Resource, r.Turn.ID, engine.WaiterLife)
	}
	return e.answer(ctx, r, got)
}

// introduce runs the script and stores the description of the client.
func (e *Engine) introduce(ctx context.Context, r engine.Request, c script.Call) (value any, short, err error) {
	defer e.clients.tried(r.Resource.Prefix, r.Client.ID)
	if _, ok := e.rdb.(*redis.ClusterClient); ok || e.options.replicas.n > 0 {
		defer e.describeBeside(r.Resource.Prefix, *r.Client)()
		return e.runReplicated(ctx, e.rdb, c)
	}
	value, err = bounded(e, ctx, func() (any, error) { return through(ctx, e, e.batchers.poolOf(ctx, c.Key()), e.introduction(r, c)) })
	return value, nil, e.classify(ctx, err)
}

// introduction is the script and the description of the client in one pipeline.
func (e *Engine) introduction(r engine.Request, c script.Call) func(context.Context, redis.UniversalClient) (any, error) {
	return func(ctx context.Context, rdb redis.UniversalClient) (any, error) {
		pipe := rdb.Pipeline()
		who := describe(ctx, r.Resource.Prefix, *r.Client)
		cmd := newCommand(ctx, c.Args())
		_ = pipe.Process(ctx, who)
		_ = pipe.Process(ctx, cmd)
		exec(ctx, pipe)
		if who.Err() == nil || isDenied(ctx, who.Err()) { // if it is not allowed, it is not tried again
			e.clients.wrote(r.Resource.Prefix, r.Client.ID)
		}
		if isCode(cmd.Err(), "NOSCRIPT") {
			return process(ctx, rdb, c)
		}
		return cmd.Result()
	}
}

// describeBeside stores the description of a client concurrently with another call, since in
// a cluster it may belong to another node, which must not delay the reply. The function that
// it returns waits for the end, at most asideWait.
func (e *Engine) describeBeside(prefix string, client engine.Client) (wait func()) {
	e.clients.wrote(prefix, client.ID)
	rdb := e.own.client()
	described := e.aside(func(ctx context.Context) { _ = rdb.Process(ctx, describe(ctx, prefix, client)) })
	return func() {
		select {
		case <-described:
		case <-time.After(asideWait):
		}
	}
}

// answer converts the script's reply to an engine.Answer.
func (e *Engine) answer(ctx context.Context, r engine.Request, got script.Acquired) (engine.Answer, error) {
	a := engine.Answer{
		Token: got.Token, TTL: got.TTL, Position: got.Position,
		Next: got.Next, Waiters: got.Waiters,
	}
	switch got.Status {
	case script.Granted:
		a.Status, a.Last = engine.Granted, got.Last
	case script.Queued:
		a.Status, a.Last = engine.Queued, got.Last
	case script.Busy:
		a.Status, a.Last = engine.Busy, got.Last
		a.Holder = e.holderOf(ctx, r.Resource.Prefix, got.Holder)
	case script.Marked:
		a.Status = engine.Marked
	case script.Outbid:
		a.Status, a.Last = engine.Outbid, got.Last
	case script.Ended:
		return engine.Answer{}, &engine.EndedError{Cause: engine.Cause(got.Ended.Cause), Reason: got.Ended.Reason}
	case script.Mismatch:
		return engine.Answer{}, engine.ErrMismatch
	case script.TooHeavy:
		return engine.Answer{}, engine.ErrTooHeavy
	case script.TooFar:
		return engine.Answer{}, engine.ErrBallot
	}
	return a, nil
}

// holderOf describes the holder in the way. If its client cannot be looked up, the answer has
// its ID only.
func (e *Engine) holderOf(ctx context.Context, prefix string, h script.Holder) engine.Holder {
	if h.ID == "" {
		return engine.Holder{}
	}
	found, _ := e.resolve(ctx, prefix, []string{h.ID})
	return holder(h, found)
}

func holder(h script.Holder, found map[string]engine.Client) engine.Holder {
	return engine.Holder{
		ID: h.ID, Client: found[engine.ClientOf(h.ID)], Reason: h.Reason, Weight: h.Weight,
		Token: h.Token, Since: h.Since, TTL: h.TTL, Breaking: h.Breaking,
	}
}
