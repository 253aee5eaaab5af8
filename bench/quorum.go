package main

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// nodes are the independent servers of a quorum; what befalls the first two of
// them comes over a client that is at work.
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

// trouble is what happens to two of the nodes, and how it ends.
type trouble struct {
	strike, mend func(*redistest.Server)
}

func allUp() trouble {
	nothing := func(*redistest.Server) {}
	return trouble{nothing, nothing}
}

func dead() trouble { return trouble{(*redistest.Server).Kill, (*redistest.Server).Restart} }

func hung() trouble { return trouble{(*redistest.Server).Pause, (*redistest.Server).Resume} }

// quorumOf is one caller that locks and unlocks a resource on five nodes.
func quorumOf(t trouble) play {
	const stricken = 2
	return func(ctx context.Context, s *stage, c contender) (f figures, err error) {
		there, err := s.site(c.on)
		if err != nil {
			return nil, err
		}
		all := there.servers
		jobs := jobsFor(job{
			Kind: "crowd", Contender: c.name, Addrs: all.addrs(), Resource: s.fresh("quorum"),
			Callers: 1, Own: true, TTL: s.ttl,
		}, 1)
		if err := s.crew.begin(0, jobs); err != nil {
			return nil, err
		}
		for _, server := range all[:stricken] {
			t.strike(server)
		}
		defer func() {
			for _, server := range all[:stricken] {
				t.mend(server)
				err = errors.Join(err, s.cores.pinServer(server.PID()))
			}
		}()
		w := soon(50*time.Millisecond, 4*s.slice)
		if err := s.crew.open(0, 1, w); err != nil {
			return nil, err
		}
		reports, err := s.crew.reports(0, 1)
		if err != nil {
			return nil, err
		}
		return sum(reports, w.Until.Sub(w.From), serverUsed{}), nil
	}
}

// quorum starts the nodes when they are first needed.
func (s *stage) quorum(size int) (nodes, error) {
	var err error
	if s.nodes == nil {
		s.nodes, err = newNodes(size, s.cores)
	}
	return s.nodes, err
}
