package doctor

import (
	"context"
	"net"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// clusterNode is a line of CLUSTER NODES.
type clusterNode struct {
	id, addr, masterID string
	flags              []string
	slots              int // ranges
}

func (n *clusterNode) is(flag string) bool { return slices.Contains(n.flags, flag) }

// findInCluster gets the servers of the cluster from the servers of the URL, one after the other.
func (s *site) findInCluster(ctx context.Context) error {
	var trouble error
	for _, addr := range s.node.Addrs {
		if trouble = s.askCluster(ctx, addr); trouble == nil {
			break
		}
	}
	for _, want := range []role{master, replica} {
		for _, n := range s.nodes {
			if n.role() == want && n.addr != "" {
				s.servers = append(s.servers, s.newServer(n.addr, want))
			}
		}
	}
	return trouble
}

// role returns whether a server is a master or a replica, or "" if it does not store leases.
func (n *clusterNode) role() role {
	switch {
	case n.is("master") && n.slots > 0:
		return master
	case n.is("slave"):
		return replica
	}
	return ""
}

func (s *site) askCluster(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	rdb := s.node.Server(addr)
	defer rdb.Close()
	text, err := rdb.ClusterNodes(ctx).Result()
	if err != nil {
		return err
	}
	s.nodes = parseNodes(text, addr)
	state, err := rdb.ClusterInfo(ctx).Result()
	s.cluster = parseFields(state)
	return err
}

// parseNodes parses CLUSTER NODES of the server at addr, which may not have its own address yet.
func parseNodes(text, addr string) []clusterNode {
	var out []clusterNode
	host, _, _ := net.SplitHostPort(addr)
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 8 {
			continue
		}
		n := clusterNode{id: words[0], flags: strings.Split(words[2], ",")}
		if words[3] != "-" {
			n.masterID = words[3]
		}
		endpoint, _, _ := strings.Cut(words[1], "@") // without the port of the bus, and a host name behind it
		h, port, err := net.SplitHostPort(endpoint)
		if err == nil && port != "0" && !n.is("noaddr") && !n.is("handshake") {
			if h == "" {
				h = host
			}
			n.addr = net.JoinHostPort(h, port)
		}
		for _, w := range words[8:] {
			if !strings.HasPrefix(w, "[") { // not a slot that is being moved
				n.slots++
			}
		}
		out = append(out, n)
	}
	return out
}

// slotsAll is the number of slots of a cluster.
const slotsAll = 16384

// checkCluster checks the cluster as a whole.
func (s *site) checkCluster(r *diagnosis.Report) {
	c := s.Check("cluster", &r.Findings)
	switch {
	case s.trouble != nil && refusedBy(s.trouble):
		c.FailAs(diagnosis.Denied, "give user and password in the URL, and let the user run CLUSTER: +cluster", "refused: %s", diagnosis.OneLine(s.trouble))
	case s.trouble != nil && strings.Contains(s.trouble.Error(), "cluster support disabled"):
		c.Fail("write redis://HOST:PORT", "this is one Redis, not a cluster")
	case s.trouble != nil:
		c.FailAs(diagnosis.Unreachable, "check that they run, and the addresses in the URL", "no server of the URL answers: %s", diagnosis.OneLine(s.trouble))
	default:
		s.checkSlots(r)
		s.checkMembers(r)
	}
}

// checkSlots checks that every slot has a master.
func (s *site) checkSlots(r *diagnosis.Report) {
	c := s.Check("cluster", &r.Findings)
	served, _ := s.cluster.number("cluster_slots_ok")
	c = c.With("state", s.cluster["cluster_state"]).With("slots_ok", served).With("servers", len(s.nodes))
	switch {
	case s.cluster["cluster_state"] != "ok":
		c.Fail("see redis-cli --cluster check HOST:PORT", "cluster_state %s, %d of %d slots served", orUnknown(s.cluster["cluster_state"]), served, slotsAll)
	case served < slotsAll:
		c.Fail("see redis-cli --cluster check HOST:PORT, and assign the slots", "%d of %d slots are served: resources of the others cannot be locked", served, slotsAll)
	default:
		c.OK("cluster_state ok, all slots served by %d servers", len(s.nodes))
	}
}

// checkMembers checks that a master that fails is replaced.
func (s *site) checkMembers(r *diagnosis.Report) {
	c := s.Check("failover", &r.Findings)
	var masters, alone, failed []string
	for _, n := range s.nodes {
		if n.is("fail") || n.is("fail?") {
			failed = append(failed, n.addr)
		}
		if n.role() != master {
			continue
		}
		masters = append(masters, n.addr)
		if !slices.ContainsFunc(s.nodes, func(r clusterNode) bool { return r.masterID == n.id && !r.is("fail") }) {
			alone = append(alone, n.addr)
		}
	}
	c.WarnIf(len(failed) > 0, "bring them back, or take them out (CLUSTER FORGET)", "marked as failed: %s", strings.Join(failed, ", "))
	c.WarnIf(len(alone) > 0, "give each a replica, on another machine", "masters without a replica: %s; while one is away, its resources cannot be locked", strings.Join(alone, ", "))
	c.WarnIf(len(masters) < 3, "use 3 masters or more", "%d masters: without one of them there is no majority for a failover", len(masters))
	if versions := s.versions(); len(versions) > 1 {
		s.Check("version", &r.Findings).Warn("finish the upgrade", "the servers differ: %s", strings.Join(versions, ", "))
	}
	c.Otherwise("%d masters, each with a replica", len(masters))
}

// versions returns the versions of the servers that answered, each once.
func (s *site) versions() []string {
	var out []string
	for _, srv := range s.servers {
		name, version := srv.info.flavour()
		if v := name + " " + version; srv.trouble == nil && name != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}
