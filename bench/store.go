package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// store is a row of what is measured of every store.
type store struct {
	name   string
	launch func(ctx context.Context) (*storeServer, error)
	engine func(s settings) (engine.Engine, io.Closer, error)
	// commits are two bare changes of one small value, one for Lock and one for Unlock.
	commits func(s settings) (client, error)
	// ring passes a turn on by a commit and what the store has to notify others of it.
	ring func(s settings) (client, error)
	// peers are the locks that teams use on this store.
	peers []contender
	// more are other ways to use Holdfast, measured without contention.
	more []contender
	// disk reports whether a commit is on the disk when it returns.
	disk bool
	// pair is the bar of a pair, beside what; 0: none.
	pair   float64
	beside string
}

// stores returns all stores.
func stores() []store {
	return []store{
		redisStore("Redis", false), redisStore("Redis, fsync", true),
		postgresStore(), mariaDBStore(), sqliteStore(), etcdStore(), zookeeperStore(),
	}
}

// storeServer is a running server.
type storeServer struct {
	addrs []string
	pid   int // 0: the store has no server
	// writes returns the number of transactions that changed something, since some time.
	writes func(ctx context.Context) (int, error)
	clear  func(ctx context.Context) error // deletes what contenders have left
	stop   func()
}

// read implements meter.
func (s *storeServer) read(ctx context.Context) (u serverUse, err error) {
	if s.pid != 0 {
		if u.cpu, err = cpuOf(s.pid); err != nil {
			return u, err
		}
	}
	u.writes, err = s.writes(ctx)
	return u, err
}

// empty implements meter.
func (s *storeServer) empty(ctx context.Context) error { return s.clear(ctx) }

// close implements meter. The site stops the server.
func (s *storeServer) close() {}

// storeSite starts the server of a store, on the servers' CPU.
func (s *testbed) storeSite(name string) (site, error) {
	all := stores()
	i := slices.IndexFunc(all, func(st store) bool { return st.name == name })
	if i < 0 {
		return site{}, fmt.Errorf("no store %q", name)
	}
	back, err := s.cores.asServer()
	if err != nil {
		return site{}, err
	}
	defer back()
	server, err := all[i].launch(context.Background())
	if err != nil {
		return site{}, fmt.Errorf("%s: %w", name, err)
	}
	if server.pid > 0 { // SQLite has no server
		if err := s.cores.checkServer(server.pid); err != nil {
			server.stop()
			return site{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	return site{addrs: server.addrs, meters: []meter{server}, stop: server.stop}, nil
}

// The names of the contenders of a store. Those of peers are their own.
func (st store) ours() string       { return "holdfast on " + st.name }
func (st store) twoCommits() string { return "two commits, " + st.name }
func (st store) passing() string    { return "commit and notify, " + st.name }

// contenders returns those of a store.
func (st store) contenders() []contender {
	all := []contender{
		{name: st.ours(), role: ours, background: true, open: func(s settings) (client, error) { return st.open(s, st.engine) }},
		{name: st.twoCommits(), role: floor, background: true, open: st.commits},
		{name: st.passing(), role: floor, open: st.ring},
	}
	all = append(append(all, st.peers...), st.more...)
	for i := range all {
		all[i].on = topology{store: st.name}
	}
	return all
}

// open opens a client of Holdfast on an engine.
func (st store) open(s settings, on func(settings) (engine.Engine, io.Closer, error)) (client, error) {
	e, closer, err := on(s)
	if err != nil {
		return nil, err
	}
	c, err := holdfast.New(e)
	if err != nil {
		return nil, errors.Join(err, closer.Close())
	}
	return &holdfastClient{c, []io.Closer{closer}, []holdfast.LockOption{holdfast.WithTTL(s.ttl)}}, nil
}

// closing is a function as an io.Closer.
type closing func()

func (f closing) Close() error {
	f()
	return nil
}

// names returns the names of contenders.
func names(all []contender) []string {
	var out []string
	for _, c := range all {
		out = append(out, c.name)
	}
	return out
}

// simple is a client of a peer or a floor.
type simple struct {
	of  func(resource string) calls
	end func()
}

func (p simple) lock(resource string) lock { return p.of(resource) }
func (p simple) close()                    { p.end() }

// calls is a lock made of two functions.
type calls struct {
	lock, unlock func(ctx context.Context) error
}

func (c calls) Lock(ctx context.Context) error   { return c.lock(ctx) }
func (c calls) Unlock(ctx context.Context) error { return c.unlock(ctx) }

// twice is a client that makes one call to lock and the same to unlock.
func twice(call func(ctx context.Context) error, end func()) client {
	return simple{func(string) calls { return calls{call, call} }, end}
}
