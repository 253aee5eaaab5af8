package main

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// stage is where contenders take their turns: a server, its meter, and the
// worker processes.
type stage struct {
	server *redistest.Server
	meter  *meter
	crew   *crew
	nodes  nodes // of a quorum; started when needed
	sites  map[topology]site
	cores  cores
	rounds int
	slice  time.Duration
	ttl    time.Duration
	pool   int // of the flag -pool
	names  int // resources so far
}

func newStage(c cores, rounds int, slice time.Duration) (*stage, error) {
	server, err := redistest.Launch()
	if err != nil {
		return nil, err
	}
	s := &stage{server: server, meter: newMeter(server.Addr()), cores: c, rounds: rounds, slice: slice, ttl: 15 * time.Second}
	if err := c.pinServer(server.PID()); err != nil {
		s.close()
		return nil, err
	}
	if s.crew, err = newCrew(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stage) close() {
	if s.crew != nil {
		s.crew.close()
	}
	_ = s.meter.rdb.Close()
	s.closeSites()
	s.server.Stop()
}

// addrs is the one server, which most contenders share.
func (s *stage) addrs() []string { return []string{s.server.Addr()} }

// fresh returns a name that was not used before, so that no slice meets what
// another has left.
func (s *stage) fresh(what string) string {
	s.names++
	return fmt.Sprintf("%s-%d", what, s.names)
}

// play gives a contender one slice on an empty store. After a failure the workers
// are new ones.
func (s *stage) play(ctx context.Context, v variant, c contender) (figures, error) {
	there, err := s.site(c.on)
	if err != nil {
		return nil, err
	}
	if err := there.empty(ctx); err != nil {
		return nil, err
	}
	f, err := v.play(ctx, s, c)
	if err != nil {
		s.crew.dismiss()
		return nil, err
	}
	return f, nil
}

// provide makes a resource for a contender that needs it made.
func (s *stage) provide(ctx context.Context, c contender, addrs []string, resource string) error {
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

// serverUsed is what the servers did in a window.
type serverUsed struct {
	cpu             time.Duration
	commands, reads int
}

// watch reads the meters of the servers at both ends of the window.
func (there site) watch(ctx context.Context, w window, c contender) (serverUsed, error) {
	var sum serverUsed
	sleepUntil(w.From)
	before, err := there.read(ctx)
	if err != nil {
		return sum, err
	}
	sleepUntil(w.Until)
	after, err := there.read(ctx)
	if err != nil {
		return sum, err
	}
	for i := range after {
		used := after[i].since(before[i], c)
		sum.cpu += used.cpu
		sum.commands += used.commands
		sum.reads += used.reads
	}
	return sum, ctx.Err()
}

func (there site) read(ctx context.Context) ([]serverUse, error) {
	all := make([]serverUse, len(there.meters))
	for i, m := range there.meters {
		var err error
		if all[i], err = m.read(ctx); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (u serverUse) since(before serverUse, c contender) serverUsed {
	return serverUsed{u.cpu - before.cpu, u.sent(c.sends) - before.sent(c.sends), u.reads - before.reads - 1}
}
