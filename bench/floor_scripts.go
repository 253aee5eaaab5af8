package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine/goredis/script"
)

const bareID = "0123456789ab.0123456789"

// scriptsFloor sends Holdfast's own scripts by hand: what is above it is the
// client's.
func scriptsFloor() contender {
	return contender{name: "the same scripts, sent by hand", role: floor, background: true, sends: evalsha,
		open: func(s settings) (party, error) {
			scripts, err := script.New(10 * time.Minute)
			if err != nil {
				return nil, err
			}
			return &scriptsParty{s.client(), scripts, script.Acquire{Kind: "mutex", Capacity: 1, TTL: s.ttl}, 0}, nil
		}}
}

// sharedFloor is the same of a kind of which many may hold: so many others do.
func sharedFloor(name, kind string, others int) contender {
	c := scriptsFloor()
	c.name = name
	c.open = func(s settings) (party, error) {
		p, err := scriptsFloor().open(s)
		if err == nil {
			p := p.(*scriptsParty)
			p.request.Kind, p.request.Capacity, p.others = kind, 2000, others
		}
		return p, err
	}
	return c
}

type scriptsParty struct {
	rdb     *redis.Client
	scripts *script.Set
	request script.Acquire
	others  int // that hold the resource as well
}

func (p *scriptsParty) lock(resource string) lock {
	acquire, release := p.pair(resource, bareID, p.request.TTL)
	l := &scriptsLock{rdb: p.rdb, acquire: acquire, release: release}
	for i := range p.others {
		other, _ := p.pair(resource, fmt.Sprintf("0123456789ab.%010x", i), time.Hour)
		l.others = append(l.others, other)
	}
	return l
}

func (p *scriptsParty) close() { _ = p.rdb.Close() }

func (p *scriptsParty) pair(resource, id string, ttl time.Duration) (acquire, release script.Call) {
	keys := script.KeysOf("bench:{" + resource + "}")
	r := p.request
	r.ID, r.TTL, r.Weight, r.Reserve, r.Queue = id, ttl, 1, 16, true
	return p.scripts.Acquire(keys, r), p.scripts.Release(keys, script.Release{ID: id, Token: 1})
}

type scriptsLock struct {
	rdb              *redis.Client
	acquire, release script.Call
	others           []script.Call
	known            bool // the server has the scripts, and others hold
}

func (l *scriptsLock) Lock(ctx context.Context) error {
	if !l.known {
		for _, c := range append(l.others, l.acquire, l.release) {
			if err := l.rdb.Do(ctx, c.Text()...).Err(); err != nil {
				return err
			}
		}
		l.known = true
	}
	return l.rdb.Do(ctx, l.acquire.Args()...).Err()
}

func (l *scriptsLock) Unlock(ctx context.Context) error {
	return l.rdb.Do(ctx, l.release.Args()...).Err()
}

// bareRelease is the usual script that deletes a lock only if it is one's own.
const bareRelease = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) else return 0 end`

// setFloor is the simplest lock of all: no token, no queue, no fairness.
func setFloor() contender {
	return contender{name: "SET NX PX + compare-and-delete", role: floor, background: true, sends: []string{"set", "evalsha"},
		open: func(s settings) (party, error) {
			rdb := s.client()
			sha, err := rdb.ScriptLoad(context.Background(), bareRelease).Result()
			return &setParty{rdb, sha, s.ttl}, err
		}}
}

type setParty struct {
	rdb *redis.Client
	sha string
	ttl time.Duration
}

func (p *setParty) lock(resource string) lock { return &setLock{p, []string{resource}} }
func (p *setParty) close()                    { _ = p.rdb.Close() }

type setLock struct {
	p    *setParty
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
