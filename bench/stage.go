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
	s.nodes.stop()
	s.server.Stop()
}

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
	if err := s.empty(ctx); err != nil {
		return nil, err
	}
	f, err := v.play(ctx, s, c)
	if err != nil {
		s.crew.dismiss()
		return nil, err
	}
	return f, nil
}

// empty drops all keys. What one contender leaves behind costs others: a key that
// ends is found the later, the more keys there are, and who waits for the message
// waits for that.
func (s *stage) empty(ctx context.Context) error { return s.meter.rdb.FlushAll(ctx).Err() }

// provide makes a resource for a contender that needs it made.
func (s *stage) provide(ctx context.Context, c contender, resource string) error {
	p, err := c.open(settings{addrs: s.addrs(), callers: 1, ttl: s.ttl})
	if err != nil {
		return err
	}
	defer p.close()
	if m, ok := p.(provider); ok {
		return m.provide(ctx, resource)
	}
	return nil
}

// serverUsed is what the server did in a window.
type serverUsed struct {
	cpu             time.Duration
	commands, reads int
}

// watch reads the server's meter at both ends of the window.
func (s *stage) watch(ctx context.Context, w window, c contender) (serverUsed, error) {
	sleepUntil(w.From)
	before, err := s.meter.read(ctx)
	if err != nil {
		return serverUsed{}, err
	}
	sleepUntil(w.Until)
	after, err := s.meter.read(ctx)
	if err != nil {
		return serverUsed{}, err
	}
	return after.since(before, c), ctx.Err()
}

func (u serverUse) since(before serverUse, c contender) serverUsed {
	return serverUsed{u.cpu - before.cpu, u.sent(c.sends) - before.sent(c.sends), u.reads - before.reads - 1}
}
