package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// testbed is the environment of the measurements: a server, its meter, and the worker
// processes.
type testbed struct {
	server    *redistest.Server
	meter     *redisMeter
	workers   *workerPool
	nodes     nodes // of a quorum; started when needed
	sites     map[topology]site
	cores     cores
	rounds    int
	slice     time.Duration
	ttl       time.Duration
	pool      int    // of the flag -pool
	resources int    // resources so far
	programs  string // folder of the programs that were built, once there are some
}

func newTestbed(c cores, rounds int, slice time.Duration) (*testbed, error) {
	server, err := redistest.Launch()
	if err != nil {
		return nil, err
	}
	s := &testbed{server: server, meter: newRedisMeter(server.Addr()), cores: c, rounds: rounds, slice: slice, ttl: 15 * time.Second}
	if err := c.pinServer(server.PID()); err != nil {
		s.close()
		return nil, err
	}
	if s.workers, err = newWorkerPool(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *testbed) close() {
	if s.workers != nil {
		s.workers.close()
	}
	s.meter.close()
	s.closeSites()
	_ = os.RemoveAll(s.programs)
	s.server.Stop()
}

// addrs returns the address of the server shared by most contenders.
func (s *testbed) addrs() []string { return []string{s.server.Addr()} }

// newResource returns a new name, so that slices do not share keys.
func (s *testbed) newResource(what string) string {
	s.resources++
	return fmt.Sprintf("%s-%d", what, s.resources)
}

// measure runs a contender for one slice on an empty store. After a failure it kills the
// workers, and the next slice starts new ones.
func (s *testbed) measure(ctx context.Context, v variant, c contender) (figures, error) {
	at, err := s.site(c.on)
	if err != nil {
		return nil, err
	}
	if err := at.empty(ctx); err != nil {
		return nil, err
	}
	f, err := v.measure(ctx, s, c)
	if err != nil {
		s.workers.killAll()
		return nil, err
	}
	return f, nil
}

// provide creates a resource if the contender is a provider.
func (s *testbed) provide(ctx context.Context, c contender, addrs []string, resource string) error {
	p, err := c.open(settings{addrs: addrs, callers: 1, ttl: s.ttl})
	if err != nil {
		return err
	}
	defer p.close()
	if m, ok := p.(provider); ok {
		return m.provide(ctx, resource)
	}
	return nil
}

// serverUsed is the use of the servers within a window.
type serverUsed struct {
	cpu                     time.Duration
	commands, reads, writes int
}

// watch reads the meters of the servers at both ends of the window.
func (on site) watch(ctx context.Context, w window, c contender) (serverUsed, error) {
	var sum serverUsed
	sleepUntil(w.From)
	before, err := on.read(ctx)
	if err != nil {
		return sum, err
	}
	sleepUntil(w.Until)
	after, err := on.read(ctx)
	if err != nil {
		return sum, err
	}
	for i := range after {
		used := after[i].since(before[i], c)
		sum.cpu += used.cpu
		sum.commands += used.commands
		sum.reads += used.reads
		sum.writes += used.writes
	}
	return sum, ctx.Err()
}

func (on site) read(ctx context.Context) ([]serverUse, error) {
	all := make([]serverUse, len(on.meters))
	for i, m := range on.meters {
		var err error
		if all[i], err = m.read(ctx); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (u serverUse) since(before serverUse, c contender) serverUsed {
	return serverUsed{u.cpu - before.cpu, u.sent(c.sends) - before.sent(c.sends), u.reads - before.reads - 1, u.writes - before.writes}
}
