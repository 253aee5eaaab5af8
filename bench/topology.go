package main

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// topology is the servers of a contender. The zero value is the one server shared by
// most contenders.
type topology struct {
	masters int // of a cluster without replicas
	nodes   int // of a quorum
}

// site is the running servers of a topology and their meters.
type site struct {
	servers nodes
	meters  []*meter
}

// mostNodes is the size of the largest quorum; smaller ones use the first of its
// nodes.
const mostNodes = 5

// site starts the servers of a topology when they are first needed.
func (s *testbed) site(t topology) (site, error) {
	if t == (topology{}) {
		return site{nodes{s.server}, []*meter{s.meter}}, nil
	}
	if found, ok := s.sites[t]; ok {
		return found, nil
	}
	made, err := s.servers(t)
	if err != nil {
		return site{}, err
	}
	found := site{servers: made}
	for _, server := range made {
		found.meters = append(found.meters, newMeter(server.Addr()))
	}
	if s.sites == nil {
		s.sites = map[topology]site{}
	}
	s.sites[t] = found
	return found, nil
}

func (s *testbed) servers(t topology) (nodes, error) {
	if t.nodes > 0 {
		all, err := s.quorum(mostNodes)
		if err != nil {
			return nil, err
		}
		return all[:t.nodes], nil
	}
	all, err := redistest.LaunchCluster(t.masters)
	if err != nil {
		return nil, err
	}
	for _, server := range all {
		err = errors.Join(err, s.cores.pinServer(server.PID()))
	}
	if err != nil {
		nodes(all).stop()
		return nil, err
	}
	return all, nil
}

// closeSites stops the servers started by site.
func (s *testbed) closeSites() {
	for t, at := range s.sites {
		for _, m := range at.meters {
			_ = m.rdb.Close()
		}
		if t.masters > 0 {
			at.servers.stop()
		}
	}
	s.nodes.stop()
}

// empty deletes all keys, because the remaining keys of one contender slow down the
// others: with more keys, Redis detects and reports an expired one later.
func (on site) empty(ctx context.Context) error {
	var errs []error
	for _, m := range on.meters {
		errs = append(errs, m.rdb.FlushAll(ctx).Err())
	}
	return errors.Join(errs...)
}
