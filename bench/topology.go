package main

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// topology is what servers a contender needs; the zero value is the one server
// that most of them share.
type topology struct {
	masters int // of a cluster without replicas
	nodes   int // of a quorum
}

// site is the servers of a topology, each with its meter.
type site struct {
	servers nodes
	meters  []*meter
}

// mostNodes is how many a quorum has at most; smaller ones are the first of
// these.
const mostNodes = 5

// site starts the servers of a topology when they are first needed.
func (s *stage) site(t topology) (site, error) {
	if t == (topology{}) {
		return site{nodes{s.server}, []*meter{s.meter}}, nil
	}
	if there, ok := s.sites[t]; ok {
		return there, nil
	}
	made, err := s.servers(t)
	if err != nil {
		return site{}, err
	}
	there := site{servers: made}
	for _, server := range made {
		there.meters = append(there.meters, newMeter(server.Addr()))
	}
	if s.sites == nil {
		s.sites = map[topology]site{}
	}
	s.sites[t] = there
	return there, nil
}

func (s *stage) servers(t topology) (nodes, error) {
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

// closeSites ends what site has started.
func (s *stage) closeSites() {
	for t, there := range s.sites {
		for _, m := range there.meters {
			_ = m.rdb.Close()
		}
		if t.masters > 0 {
			there.servers.stop()
		}
	}
	s.nodes.stop()
}

// empty drops all keys. What one contender leaves behind costs others: a key that
// ends is found the later, the more keys there are, and who waits for the message
// waits for that.
func (there site) empty(ctx context.Context) error {
	var errs []error
	for _, m := range there.meters {
		errs = append(errs, m.rdb.FlushAll(ctx).Err())
	}
	return errors.Join(errs...)
}
