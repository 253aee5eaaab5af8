package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
)

const bareID = "0123456789ab.0123456789"

// scriptsFloor sends the commands of Holdfast's engine by hand. The difference to
// holdfast is the cost of the client.
func scriptsFloor() contender { return sharedFloor("the same scripts, sent by hand", "mutex", 1, 0) }

// sharedFloor sends the commands of any kind of lease, while others hold the resource
// as well.
func sharedFloor(name string, kind engine.Kind, capacity, others int) contender {
	reserve := uint64(0)
	if capacity == 1 { // only the callers of a mutex hand off to each other
		reserve = 16
	}
	return contender{name: name, role: floor, background: true, sends: evalsha,
		open: func(s settings) (client, error) {
			p := &scriptsClient{rdb: s.client(), others: others, request: engine.Request{
				ID: bareID, Kind: kind, Capacity: capacity, Weight: 1, TTL: s.ttl, Reserve: reserve, Queue: true,
			}}
			return p, p.record(context.Background())
		}}
}

type scriptsClient struct {
	rdb              *redis.Client
	request          engine.Request
	others           int
	acquire, release []any // commands with the keys of any resource
}

// record makes one turn through the engine and stores the commands that it sends.
func (p *scriptsClient) record(ctx context.Context) error {
	r := p.request
	r.Resource = benchResource("recorded")
	sent, err := recordCommands(p.rdb, func(e engine.Engine) error {
		if _, err := e.Acquire(ctx, r); err != nil {
			return err
		}
		return e.Release(ctx, engine.Release{Resource: r.Resource, Held: engine.Held{ID: bareID, Token: 1}})
	})
	if err == nil {
		p.acquire, p.release = sent[0], sent[1]
	}
	return err
}

func (p *scriptsClient) lock(resource string) lock { return &scriptsLock{p: p, resource: resource} }

func (p *scriptsClient) close() { _ = p.rdb.Close() }

// pair returns the commands of a turn.
func (p *scriptsClient) pair(resource string) (acquire, release []any) {
	acquire, release = slices.Clone(p.acquire), slices.Clone(p.release)
	core := "bench:{" + resource + "}"
	acquire[3], acquire[4] = core, core+":line"
	release[3], release[4] = core, core+":line"
	return acquire, release
}

func benchResource(name string) engine.Resource { return engine.Resource{Prefix: "bench", Name: name} }

type scriptsLock struct {
	p                *scriptsClient
	resource         string
	acquire, release []any // nil until the others hold the resource
}

// surround acquires the leases of the others.
func (l *scriptsLock) surround(ctx context.Context) error {
	e := goredis.New(l.p.rdb)
	for i := range l.p.others {
		r := l.p.request
		r.Resource, r.ID, r.TTL = benchResource(l.resource), fmt.Sprintf("0123456789ab.%010x", i), time.Hour
		if _, err := e.Acquire(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

func (l *scriptsLock) Lock(ctx context.Context) error {
	if l.acquire == nil {
		if err := l.surround(ctx); err != nil {
			return err
		}
		l.acquire, l.release = l.p.pair(l.resource)
	}
	return l.p.rdb.Do(ctx, l.acquire...).Err()
}

func (l *scriptsLock) Unlock(ctx context.Context) error {
	return l.p.rdb.Do(ctx, l.release...).Err()
}

// recordCommands returns the EVALSHA commands that an engine sends through rdb during
// calls. Their scripts are then loaded in the server.
func recordCommands(rdb *redis.Client, calls func(engine.Engine) error) ([][]any, error) {
	r := &recorder{Client: redis.NewClient(rdb.Options())}
	r.AddHook(r)
	err := calls(goredis.New(r))
	return r.sent, errors.Join(err, r.Close())
}

// recorder is a client and its own hook. Because it is not a *redis.Client, the engine
// opens no other connections and sends all commands through it.
type recorder struct {
	*redis.Client
	sent [][]any
}

func (r *recorder) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *recorder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		r.record(cmd)
		return next(ctx, cmd)
	}
}

func (r *recorder) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			r.record(cmd)
		}
		return next(ctx, cmds)
	}
}

func (r *recorder) record(cmd redis.Cmder) {
	if cmd.Name() == "evalsha" {
		r.sent = append(r.sent, slices.Clone(cmd.Args()))
	}
}

// bareRelease is the usual script that deletes a lock only if it has the caller's value.
const bareRelease = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`

// setFloor is the simplest lock: no token, no queue, no fairness.
func setFloor() contender {
	return contender{name: "SET NX PX + compare-and-delete", role: floor, background: true, sends: []string{"set", "evalsha"},
		open: func(s settings) (client, error) {
			rdb := s.client()
			sha, err := rdb.ScriptLoad(context.Background(), bareRelease).Result()
			return &setClient{rdb, sha, s.ttl}, err
		}}
}

type setClient struct {
	rdb *redis.Client
	sha string
	ttl time.Duration
}

func (p *setClient) lock(resource string) lock { return &setLock{p, []string{resource}} }
func (p *setClient) close()                    { _ = p.rdb.Close() }

type setLock struct {
	p    *setClient
	keys []string
}

func (l *setLock) Lock(ctx context.Context) error {
	ok, err := l.p.rdb.SetNX(ctx, l.keys[0], bareID, l.p.ttl).Result()
	if err != nil || !ok {
		return fmt.Errorf("SET NX: %v %w", ok, err)
	}
	return nil
}

func (l *setLock) Unlock(ctx context.Context) error {
	return l.p.rdb.EvalSha(ctx, l.p.sha, l.keys, bareID).Err()
}
