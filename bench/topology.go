package main

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// topology is the servers of a contender. The zero value is the one Redis shared by
// most contenders.
type topology struct {
	masters int    // of a cluster without replicas
	nodes   int    // of a quorum
	store   string // the name of a store
}

// site is the running servers of a topology and their meters.
type site struct {
	addrs  []string
	meters []meter
	stop   func() // nil: others stop the servers
}

// mostNodes is the size of the largest quorum; smaller ones use the first of its
// nodes.
const mostNodes = 5

// site starts the servers of a topology when they are first needed.
func (s *testbed) site(t topology) (site, error) {
	if t == (topology{}) {
		return site{addrs: s.addrs(), meters: []meter{s.meter}}, nil
	}
	if found, ok := s.sites[t]; ok {
		return found, nil
	}
	made, err := s.makeSite(t)
	if err != nil {
		return site{}, err
	}
	if s.sites == nil {
		s.sites = map[topology]site{}
	}
	s.sites[t] = made
	return made, nil
}

func (s *testbed) makeSite(t topology) (site, error) {
	switch {
	case t.store != "":
		return s.storeSite(t.store)
	case t.nodes > 0:
		all, err := s.quorum(mostNodes)
		if err != nil {
			return site{}, err
		}
		return siteOf(all[:t.nodes], nil), nil
	}
	masters, err := redistest.LaunchCluster(t.masters)
	if err != nil {
		return site{}, err
	}
	all := nodes(masters)
	for _, server := range all {
		err = errors.Join(err, s.cores.pinServer(server.PID()))
	}
	if err != nil {
		all.stop()
		return site{}, err
	}
	return siteOf(all, all.stop), nil
}

func siteOf(servers nodes, stop func()) site {
	at := site{addrs: servers.addrs(), stop: stop}
	for _, server := range servers {
		at.meters = append(at.meters, newRedisMeter(server.Addr()))
	}
	return at
}

// closeSites stops the servers started by site.
func (s *testbed) closeSites() {
	for _, at := range s.sites {
		for _, m := range at.meters {
			m.close()
		}
		if at.stop != nil {
			at.stop()
		}
	}
	s.nodes.stop()
}

// empty deletes what contenders have left on all servers.
func (on site) empty(ctx context.Context) error {
	var errs []error
	for _, m := range on.meters {
		errs = append(errs, m.empty(ctx))
	}
	return errors.Join(errs...)
}
