package main

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// nodes are the independent servers of a quorum. The first two can fail while a client
// runs.
type nodes []*redistest.Server

func newNodes(n int, c cores) (nodes, error) {
	var all nodes
	for range n {
		server, err := redistest.Launch()
		if err == nil {
			all = append(all, server)
			err = c.pinServer(server.PID())
		}
		if err != nil {
			all.stop()
			return nil, err
		}
	}
	return all, nil
}

func (n nodes) stop() {
	for _, server := range n {
		server.Stop()
	}
}

func (n nodes) addrs() []string {
	var addrs []string
	for _, server := range n {
		addrs = append(addrs, server.Addr())
	}
	return addrs
}

// nodeFault is a fault of two of the nodes, and its repair.
type nodeFault struct {
	inject, repair func(*redistest.Server)
}

func noFault() nodeFault {
	nothing := func(*redistest.Server) {}
	return nodeFault{nothing, nothing}
}

func killNodes() nodeFault { return nodeFault{(*redistest.Server).Kill, (*redistest.Server).Restart} }

func pauseNodes() nodeFault { return nodeFault{(*redistest.Server).Pause, (*redistest.Server).Resume} }

// quorumOf measures one caller that locks and unlocks a resource on five nodes.
func quorumOf(t nodeFault) measure {
	const faulty = 2
	return func(ctx context.Context, s *testbed, c contender) (f figures, err error) {
		at, err := s.site(c.on)
		if err != nil {
			return nil, err
		}
		all := s.nodes[:len(at.addrs)]
		jobs := splitJob(job{
			Kind: "crowd", Contender: c.name, Addrs: all.addrs(), Resource: s.newResource("quorum"),
			Callers: 1, Own: true, TTL: s.ttl,
		}, 1)
		if err := s.workers.prepare(0, jobs); err != nil {
			return nil, err
		}
		for _, server := range all[:faulty] {
			t.inject(server)
		}
		defer func() {
			for _, server := range all[:faulty] {
				t.repair(server)
				err = errors.Join(err, s.cores.pinServer(server.PID()))
			}
		}()
		w := windowIn(50*time.Millisecond, 4*s.slice)
		if err := s.workers.open(0, 1, w); err != nil {
			return nil, err
		}
		reports, err := s.workers.reports(0, 1)
		if err != nil {
			return nil, err
		}
		return sum(reports, w.Until.Sub(w.From), serverUsed{}), nil
	}
}

// quorum starts the nodes when they are first needed.
func (s *testbed) quorum(size int) (nodes, error) {
	var err error
	if s.nodes == nil {
		s.nodes, err = newNodes(size, s.cores)
	}
	return s.nodes, err
}
