// Package doctor examines the Redis behind a store as a careful operator would
// before trusting it with locks: whether it is reached, and by whom; whether it
// can forget leases (eviction, restarts, failovers); whether the user's rights
// are enough; and what a sensible TTL is.
//
// It asks first and judges afterwards: a server holds what one redis-server
// said, a site what stands behind one URL, and a check is a function from these
// to findings. A server may refuse a question (managed services hide CONFIG):
// the finding is then Unknown, not a failure. Nothing is changed; only where a
// user's rights cannot be asked for are they tried, with a resource of a random
// name that is gone within two minutes.
package doctor

import (
	"context"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// Options say what the store is meant for.
type Options struct {
	// Prefix of the keys and channels on which the user needs rights.
	Prefix string
	// TTL is the longest in use. The rules for restarts and failovers go by it.
	TTL time.Duration
}

// Examine asks all servers of the store and judges what they say. It returns
// within about half a minute, also when nothing answers; ctx may end it sooner.
func Examine(ctx context.Context, st *store.Store, o Options) *Report {
	sites := make([]*site, len(st.Nodes()))
	var asked sync.WaitGroup
	for i, n := range st.Nodes() {
		sites[i] = &site{node: n, place: place(n.Short())}
		asked.Go(func() { sites[i].ask(ctx, o) })
	}
	asked.Wait()
	defer func() {
		for _, s := range sites {
			s.close()
		}
	}()
	r := &Report{Store: st.String(), Prefix: o.Prefix}
	for _, s := range sites {
		r.add(s.findings(o)...)
	}
	if len(sites) > 1 {
		r.add(quorum(sites, o)...)
		r.soften(sites)
	}
	r.add(clocks(sites)...)
	r.add(lifetime(sites, o)...)
	return r
}

// site is what stands behind one URL: a server, the servers of Sentinels, or a
// cluster.
type site struct {
	place
	node *store.Node

	// servers keep the leases, now or after a failover; those thought to be
	// masters come first.
	servers   []*server
	sentinels []*guardian
	nodes     []clusterNode // of a cluster, as it says itself
	cluster   fields        // CLUSTER INFO
	trouble   error         // why the servers could not be found
	trial     *trial        // of the user's rights, if they could not be asked for
}

// ask finds the servers and asks them all at once.
func (s *site) ask(ctx context.Context, o Options) {
	switch s.node.Kind {
	case store.Sentinel:
		s.findBySentinels(ctx)
	case store.Cluster:
		s.trouble = s.findInCluster(ctx)
	default:
		s.servers = []*server{s.newServer(s.node.Addrs[0], master)}
	}
	var asked sync.WaitGroup
	for _, srv := range s.servers {
		asked.Go(func() { srv.ask(ctx, o) })
	}
	asked.Wait()
	s.tryRights(ctx, o)
}

// findings judges one site.
func (s *site) findings(o Options) []Finding {
	var out []Finding
	switch s.node.Kind {
	case store.Sentinel:
		out = append(out, s.checkSentinels()...)
	case store.Cluster:
		out = append(out, s.checkCluster()...)
	}
	for _, srv := range s.servers {
		out = append(out, srv.findings(s, o)...)
	}
	return append(out, s.checkTrial(o)...)
}

// findings judges one server; one that did not answer has one finding.
func (s *server) findings(of *site, o Options) []Finding {
	out := s.checkReach()
	if s.trouble != nil {
		return out
	}
	if s.info["redis_mode"] == "sentinel" {
		return append(out, s.checkMode(of)...) // the rest would speak of leases
	}
	out = append(out, s.checkVersion(of)...)
	out = append(out, s.checkMode(of)...)
	out = append(out, s.checkAnswers()...)
	out = append(out, s.checkEviction()...)
	out = append(out, s.checkMemory()...)
	out = append(out, s.checkPersistence(of)...)
	out = append(out, s.checkReplication(of)...)
	out = append(out, s.checkRights(o)...)
	out = append(out, s.checkPauses(o)...)
	return append(out, s.checkConnections()...)
}

// masters are the servers that answered and grant leases now.
func (s *site) masters() []*server {
	var out []*server
	for _, srv := range s.servers {
		if srv.role == master && srv.trouble == nil {
			out = append(out, srv)
		}
	}
	return out
}

func (s *site) close() {
	for _, srv := range s.servers {
		_ = srv.rdb.Close() // nothing is under way
	}
}
