// Package doctor examines the Redis of a store before it is used for locks: whether it can
// be reached, and as which user; whether it can lose leases (eviction, restarts, failovers);
// whether the user's rights are enough; and which TTL is sensible.
//
// It first collects data and then checks them: a server has the answers of one redis-server, a
// site those of one URL, and a check is a function that adds findings about them. If a server refuses
// a query (managed services hide CONFIG), the finding is Unknown, not a failure. Nothing is
// changed, except that a user's rights that cannot be queried are tried with a resource with a
// random name, which expires within two minutes.
package doctor

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// Examine queries all servers of the store and checks their answers. It returns within about half
// a minute, even if there is no answer; ctx may end it earlier. Nodes that are no Redis examine
// themselves.
func Examine(ctx context.Context, st *store.Store, o diagnosis.Options) *diagnosis.Report {
	var sites []*site
	var asked sync.WaitGroup
	others := make([][]diagnosis.Finding, len(st.Nodes()))
	for i, n := range st.Nodes() {
		if e, ok := n.(store.Examiner); ok {
			asked.Go(func() { others[i] = e.Examine(ctx, o) })
			continue
		}
		if n, ok := n.(*store.RedisNode); ok {
			s := &site{node: n, voter: len(st.Nodes()) > 1, Place: diagnosis.Place(n.Short())}
			sites = append(sites, s)
			asked.Go(func() { s.ask(ctx, o) })
		}
	}
	asked.Wait()
	defer func() {
		for _, s := range sites {
			s.close()
		}
	}()
	r := &diagnosis.Report{Store: st.String(), Prefix: o.Prefix}
	for _, s := range sites {
		s.check(r, o)
	}
	for _, found := range others {
		r.Add(found...)
	}
	if a := attend(sites, others); a.nodes > 1 {
		quorum(r, a, sites, o)
		a.soften(r)
	}
	clocks(r, sites)
	lifetime(r, sites, o)
	return r
}

// site is what one URL names: a server, the servers of Sentinels, or a cluster.
type site struct {
	diagnosis.Place
	node  *store.RedisNode
	voter bool // a node of a quorum

	// servers store the leases, now or after a failover. The supposed masters come
	// first.
	servers   []*server
	sentinels []*sentinel
	nodes     []clusterNode // CLUSTER NODES
	cluster   fields        // CLUSTER INFO
	trouble   error         // why the servers could not be found
	trial     *rightsTrial  // of the user's rights, if they cannot be queried
}

// ask finds the servers and queries all of them concurrently.
func (s *site) ask(ctx context.Context, o diagnosis.Options) {
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

// check checks one site.
func (s *site) check(r *diagnosis.Report, o diagnosis.Options) {
	switch s.node.Kind {
	case store.Sentinel:
		s.checkSentinels(r)
	case store.Cluster:
		s.checkCluster(r)
	}
	for _, srv := range s.servers {
		srv.check(r, s, o)
	}
	s.checkTrial(r, o)
}

// check checks one server. There is one finding for a server that did not answer.
func (s *server) check(r *diagnosis.Report, of *site, o diagnosis.Options) {
	s.checkReach(r)
	if s.trouble != nil {
		return
	}
	if s.info["redis_mode"] == "sentinel" {
		s.checkMode(r, of) // the other checks are about leases
		return
	}
	s.checkVersion(r, of)
	s.checkMode(r, of)
	s.checkAnswers(r)
	s.checkEviction(r)
	s.checkMemory(r)
	s.checkPersistence(r, of)
	s.checkReplication(r, of)
	s.checkRights(r, o)
	s.checkPauses(r, o)
	s.checkConnections(r)
}

// masters returns the servers that answered and grant leases now.
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
		_ = srv.rdb.Close() // no call is in flight
	}
}
