package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

// role is the part of a contender in comparisons.
type role string

const (
	ours  role = "ours"
	peer  role = "peer"
	floor role = "floor" // no lock: the cost of the driver or the server alone
)

// contender is one way to take turns.
type contender struct {
	name string // unique; worker processes find it by its name
	role role
	// sends are the commands sent by the client. Scripts must not call any of them,
	// because the server counts commands of clients and of scripts under one name.
	sends []string
	// background: calls that do not wait get a context that never ends.
	background bool
	on         topology
	open       func(s settings) (client, error)
	command    []string // in place of open: a program and its arguments
	// leaseEnd returns the time at which the lease of a resource ends in the store;
	// nil for a contender without leases.
	leaseEnd func(ctx context.Context, rdb *redis.Client, resource string) (time.Time, error)
}

// settings are the same for every contender of a scenario.
type settings struct {
	addrs   []string // one, the masters of a cluster, or the nodes of a quorum
	callers int      // goroutines that share the client
	ttl     time.Duration
	pool    int // connections of a go-redis client; 0: as many as callers, at least 10
}

// client is one client of a contender, opened as in a process of its own.
type client interface {
	// lock returns the lock of one goroutine on a resource.
	lock(resource string) lock
	close()
}

// lock is acquired and released in turn by one goroutine.
type lock interface {
	Lock(ctx context.Context) error
	Unlock(ctx context.Context) error
}

// evalsha is the only command of most contenders.
var evalsha = []string{"evalsha"}

// contenders lists all contenders.
func contenders() []contender {
	return slices.Concat(commandContenders(), storeContenders(), []contender{
		holdfastContender("holdfast"),
		onRequestContexts(holdfastContender(requestCtx)),
		holdfastContender(lingering, holdfast.WithLinger(time.Second)),
		holdfastRecording(),
		holdfastReaders(reading),
		holdfastReaders(readingAlone, holdfast.WithoutTenure()),
		holdfastCluster("holdfast, cluster of 1", 1),
		holdfastCluster("holdfast, cluster of 2", 2),
		holdfastCluster("holdfast, cluster of 3", 3),
		holdfastQuorum("holdfast, 1 node", 1),
		holdfastQuorum("holdfast, 3 nodes", 3),
		holdfastQuorum("holdfast, 5 nodes", 5),
		evalshaQuorum("two bare EVALSHA, 5 nodes", 5),
		redsyncQuorum("redsync, 5 pools", 5),
		redsyncQuorum("redsync, 3 pools, fail-fast", 3, redsync.WithFailFast(true)),
		redsyncQuorum("redsync, 5 pools, fail-fast", 5, redsync.WithFailFast(true)),
		redsyncContender("redsync", 0),
		redsyncContender("redsync, polls at 1 ms", time.Millisecond),
		redislockContender("redislock, polls at 1 ms", time.Millisecond),
		redislockContender("redislock, polls at 50 ms", 50*time.Millisecond),
		redislockAutoPipeline("redislock on AutoPipeline", time.Millisecond),
		rueidislockContender("rueidislock"),
		evalshaFloor(),
		evalshaOnRequest(),
		evalshaAutoPipeline(),
		evalshaRueidis(),
		scriptsFloor(),
		sharedFloor("a reader", "rw", 2000, 0),
		sharedFloor("a reader beside 1000", "rw", 2000, 1000),
		sharedFloor("a semaphore's unit", "semaphore", 2000, 0),
		sharedFloor("a semaphore's unit beside 1000", "semaphore", 2000, 1000),
		renewalsFloor(ownRenewals),
		renewalsFloor(bareRenewing),
		setFloor(),
		listFloor(),
		mutexFloor(),
		readersFloor(),
		messageFloor(line, false),
		messageFloor(keptLine, true),
		fdatasyncFloor(),
	})
}

// contenderNamed returns the contender with a name.
func contenderNamed(name string) (contender, error) {
	for _, c := range contenders() {
		if c.name == name {
			return c, nil
		}
	}
	return contender{}, fmt.Errorf("no contender %q", name)
}

// client opens the go-redis client of all contenders on go-redis: default options,
// and a connection for each caller unless the flag -pool is set, so that no caller
// waits for a connection.
func (s settings) client() *redis.Client { return s.clientOf(s.addrs[0]) }

func (s settings) clientOf(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, PoolSize: s.poolSize()})
}

func (s settings) poolSize() int {
	if s.pool > 0 {
		return s.pool
	}
	return max(s.callers, 10)
}
