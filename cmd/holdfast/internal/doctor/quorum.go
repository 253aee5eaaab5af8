package doctor

import (
	"net"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// attendance is how many nodes take part, and how many refuse the user.
type attendance struct{ nodes, up, refused int }

// attend counts the nodes: sites, and others by what was found about each.
func attend(sites []*site, others [][]diagnosis.Finding) attendance {
	a := attendance{nodes: len(sites)}
	for _, st := range sites {
		switch {
		case st.up():
			a.up++
		case st.refused():
			a.refused++
		}
	}
	for _, found := range others {
		if len(found) == 0 {
			continue // a site
		}
		a.nodes++
		switch (&diagnosis.Report{Findings: found}).Worst() {
		case diagnosis.None:
			a.up++
		case diagnosis.Denied:
			a.refused++
		}
	}
	return a
}

// majority returns how many nodes are needed.
func (a attendance) majority() int { return a.nodes/2 + 1 }

// quorum checks the nodes of a quorum together.
func quorum(r *diagnosis.Report, a attendance, sites []*site, o diagnosis.Options) {
	a.check(r)
	checkIndependence(r, sites)
	for _, st := range sites {
		for _, s := range st.masters() {
			s.checkRestart(r, o)
		}
	}
}

// up reports whether a node takes part.
func (s *site) up() bool { return len(s.masters()) > 0 }

// refused reports whether the node refuses the user.
func (s *site) refused() bool {
	return refusedBy(s.trouble) || slices.ContainsFunc(s.servers, func(srv *server) bool { return refusedBy(srv.trouble) }) ||
		slices.ContainsFunc(s.sentinels, func(g *sentinel) bool { return refusedBy(g.trouble) })
}

// check checks that a majority takes part.
func (a attendance) check(r *diagnosis.Report) {
	n, up, refused, need := a.nodes, a.up, a.refused, a.majority()
	c := diagnosis.Everywhere.Check("quorum", &r.Findings).With("nodes", n).With("reached", up).With("majority", need)
	switch {
	case up < need && up+refused >= need:
		c.FailAs(diagnosis.Denied, "correct the rights: nothing can be locked", "%d of %d nodes accept the user, %d are needed", up, n, need)
	case up < need:
		c.FailAs(diagnosis.Unreachable, "bring nodes back: nothing can be locked", "%d of %d nodes answer, %d are needed", up, n, need)
	case up == need && up < n:
		c.Warn("bring the others back", "%d of %d nodes answer: no other may fail", up, n)
	}
	c.WarnIf(n%2 == 0, "use 3 or 5 nodes", "%d nodes tolerate no more failures than %d would", n, n-1)
	c.Otherwise("%d of %d nodes answer, %d are needed", up, n, need)
}

// checkIndependence checks that the nodes are independent: a quorum is useless if two nodes are the
// same server or fail together.
func checkIndependence(r *diagnosis.Report, sites []*site) {
	c := diagnosis.Everywhere.Check("independence", &r.Findings)
	for i, a := range sites {
		for _, b := range sites[i+1:] {
			if how := sameFate(a, b); how != "" {
				c.Fail("use servers that are independent of each other", "%s and %s %s", a.Place, b.Place, how)
			}
		}
	}
	if hosts := sharedHosts(sites); len(c.Found()) == 0 && len(hosts) > 0 {
		c.Warn("put each node on its own machine", "several nodes are on %s: they fail together", strings.Join(hosts, ", "))
	}
	answered := slices.DeleteFunc(slices.Clone(sites), func(st *site) bool { return !st.up() })
	if len(answered) > 1 {
		c.Otherwise("the nodes that answered are different servers on different hosts")
	}
}

// sameFate describes how two nodes depend on each other, or returns "".
func sameFate(a, b *site) string {
	for _, x := range a.servers {
		for _, y := range b.servers {
			same := func(field string) bool { return x.info[field] != "" && x.info[field] == y.info[field] }
			switch {
			case same("run_id"):
				return "are the same server"
			case same("master_replid"):
				return "are replicas of one another or of the same master"
			}
		}
	}
	others := b.clusterIDs()
	if slices.ContainsFunc(a.clusterIDs(), func(id string) bool { return slices.Contains(others, id) }) {
		return "belong to the same cluster"
	}
	return ""
}

// clusterIDs returns the IDs of the servers of the node's cluster.
func (s *site) clusterIDs() []string {
	var ids []string
	for _, n := range s.nodes {
		ids = append(ids, n.id)
	}
	for _, srv := range s.servers {
		ids = append(ids, srv.clusterIDs...)
	}
	return ids
}

// sharedHosts returns the hosts with masters of more than one node.
func sharedHosts(sites []*site) []string {
	seen, shared := map[string]bool{}, []string{}
	for _, st := range sites {
		own := map[string]bool{}
		for _, s := range st.masters() {
			host, _, err := net.SplitHostPort(string(s.Place))
			if err == nil {
				own[host] = true
			}
		}
		for host := range own {
			if seen[host] && !slices.Contains(shared, host) {
				shared = append(shared, host)
			}
			seen[host] = true
		}
	}
	slices.Sort(shared)
	return shared
}

// checkRestart checks that a node keeps its votes over a restart: without them it may vote once more
// within the TTL of a lease.
func (s *server) checkRestart(r *diagnosis.Report, o diagnosis.Options) {
	kept := s.remembers()
	seconds, ok := s.info.number("uptime_in_seconds")
	uptime := time.Duration(seconds) * time.Second
	rule := "appendfsync always, or start it no sooner than " + o.TTL.String() + " (the longest TTL) after it ended"
	c := s.Check("restart", &r.Findings).With("uptime_s", seconds)
	switch {
	case kept == all:
		c.OK("it keeps every vote across a restart (fsync always)")
	case !ok:
		c.Unknown(rule, "the server does not disclose its uptime")
	case uptime < o.TTL:
		c.Fail("take it out until it has been up for "+o.TTL.String()+"; "+rule,
			"up for %s only and not fsync always: it may have forgotten a vote, and votes again", uptime)
	case kept == older1s:
		c.OK("up for %s; after a power loss or a crash keep it out of service for %s", uptime, o.TTL)
	default:
		c.Warn(rule, "up for %s; a restart forgets votes, and if it comes back within %s it votes twice", uptime, o.TTL)
	}
}

// soften turns failures that a quorum tolerates into warnings.
func (a attendance) soften(r *diagnosis.Report) {
	if a.up < a.majority() {
		return
	}
	for i, f := range r.Findings {
		if f.Status == diagnosis.Fail && f.Fault == diagnosis.Unreachable {
			r.Findings[i].Status, r.Findings[i].Fault = diagnosis.Warn, diagnosis.None
		}
	}
}
