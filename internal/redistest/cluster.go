package redistest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// topologyTimeout bounds each change of a cluster or a group of replicas; one
// takes some seconds at most.
const topologyTimeout = 60 * time.Second

// slots is the number of slots of a cluster.
const slots = 16384

// Cluster is a Redis Cluster of three masters with a replica each. Its methods are for the
// goroutine of the test and fail the test if they fail. The nodes fail a silent master over only
// after ten seconds, so that tests can do it before.
type Cluster struct {
	t     testing.TB
	nodes []*Server
	admin map[*Server]*redis.Client
}

// StartCluster launches a cluster for one test and ends it with the test. The
// options are for every server; "--cluster-node-timeout" sets after how many milliseconds a
// silent node counts as dead.
func StartCluster(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	const masters = 3
	opts = append([]Option{WithArgs("--cluster-enabled", "yes", "--cluster-node-timeout", "10000", "--cluster-replica-validity-factor", "0")}, opts...)
	c := &Cluster{t: t, nodes: startReplicating(t, 2*masters, opts), admin: map[*Server]*redis.Client{}}
	for _, s := range c.nodes {
		c.admin[s] = s.Client()
	}
	c.form(masters)
	return c
}

// form makes a cluster of the nodes. The first ones are masters.
func (c *Cluster) form(masters int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), topologyTimeout)
	defer cancel()
	if err := meet(ctx, c.nodes, masters); err != nil {
		c.t.Fatalf("redistest: %v", err)
	}
	for i, s := range c.nodes[masters:] {
		c.do(s, "cluster", "replicate", c.id(c.nodes[i]))
	}
	c.AwaitHealthy()
}

// share returns the command that gives a master its part of the slots. Before Redis 7 it takes no
// range.
func share(i, masters int) []any {
	command := []any{"cluster", "addslots"}
	for slot := slots * i / masters; slot < slots*(i+1)/masters; slot++ {
		command = append(command, slot)
	}
	return command
}

// Nodes returns all servers, also dead ones: first those that were masters at the start, then their
// replicas, in the same order.
func (c *Cluster) Nodes() []*Server { return slices.Clone(c.nodes) }

// Addrs returns the host:port of all servers.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.nodes))
	for i, s := range c.nodes {
		addrs[i] = s.Addr()
	}
	return addrs
}

// URL returns the cluster's URL, redis+cluster://host:port,host:port,…
func (c *Cluster) URL() string { return "redis+cluster://" + strings.Join(c.Addrs(), ",") }

// Client returns a new client of the cluster with go-redis's default options,
// changed by the given functions. It is closed with the test.
func (c *Cluster) Client(change ...func(*redis.ClusterOptions)) *redis.ClusterClient {
	o := &redis.ClusterOptions{Addrs: c.Addrs(), Password: c.nodes[0].conf.password}
	for _, f := range change {
		f(o)
	}
	rdb := redis.NewClusterClient(o)
	c.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Slot returns the slot of a key.
func (c *Cluster) Slot(key string) int {
	c.t.Helper()
	return int(c.do(c.living()[0], "cluster", "keyslot", key).(int64))
}

// MasterOf returns the server that has the slot of a key, dead or alive.
func (c *Cluster) MasterOf(key string) *Server {
	c.t.Helper()
	slot := c.Slot(key)
	for _, m := range c.view(c.living()[0]) {
		if m.owns(slot) {
			return c.server(m)
		}
	}
	c.t.Fatalf("redistest: no master has slot %d", slot)
	return nil
}

// Masters returns the servers that have slots, dead or alive.
func (c *Cluster) Masters() []*Server {
	c.t.Helper()
	var all []*Server
	for _, m := range c.view(c.living()[0]) {
		if len(m.slots) > 0 {
			all = append(all, c.server(m))
		}
	}
	return all
}

// ReplicaOf returns the living replica of a master.
func (c *Cluster) ReplicaOf(master *Server) *Server {
	c.t.Helper()
	view := c.view(c.living()[0])
	for _, m := range view {
		if of := view.byID(m.master); of != nil && of.port == master.port && c.server(m).PID() != 0 {
			return c.server(m)
		}
	}
	c.t.Fatalf("redistest: %s has no living replica", master.Addr())
	return nil
}

// AwaitHealthy waits until every living node sees a complete cluster, and every living replica has
// its master's data.
func (c *Cluster) AwaitHealthy() {
	c.t.Helper()
	c.await("the cluster is healthy", func() bool {
		for _, s := range c.living() {
			info := c.text(s, "cluster", "info")
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprintf("cluster_slots_assigned:%d", slots)) {
				return false
			}
			view := c.view(s)
			if len(view) != len(c.nodes) || !c.followed(view) || !c.linked(s) {
				return false
			}
		}
		return true
	})
}

// followed reports whether in a view every living node has slots or a living master.
func (c *Cluster) followed(view view) bool {
	for _, m := range view {
		s := c.server(m)
		if s == nil || s.PID() == 0 {
			continue
		}
		of := view.byID(m.master)
		if len(m.slots) == 0 && (of == nil || c.server(*of).PID() == 0) || m.is("fail") || m.is("fail?") || m.is("handshake") {
			return false
		}
	}
	return true
}

// linked reports whether a server is a master or an up-to-date replica.
func (c *Cluster) linked(s *Server) bool {
	info := c.text(s, "info", "replication")
	return strings.Contains(info, "role:master") || strings.Contains(info, "master_link_status:up")
}

// await waits until the cluster has changed.
func (c *Cluster) await(what string, cond func() bool) {
	c.t.Helper()
	Await(c.t, topologyTimeout, what, cond)
}

// living returns the servers that run.
func (c *Cluster) living() []*Server {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(s *Server) bool { return s.PID() == 0 })
}

// do sends an operator's command to one server.
func (c *Cluster) do(s *Server, args ...any) any {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	reply, err := c.admin[s].Do(ctx, args...).Result()
	if err != nil {
		c.t.Fatalf("redistest: %s: %v: %v", s.Addr(), args, err)
	}
	return reply
}

// text is do for a command that is repeated: it returns "" if there is no answer.
func (c *Cluster) text(s *Server, args ...any) string {
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	text, _ := c.admin[s].Do(ctx, args...).Text()
	return text
}

func (c *Cluster) id(s *Server) string { return fmt.Sprint(c.do(s, "cluster", "myid")) }

// server returns the server of a line of a view.
func (c *Cluster) server(m member) *Server {
	for _, s := range c.nodes {
		if s.port == m.port {
			return s
		}
	}
	return nil
}

// member is a line of CLUSTER NODES.
type member struct {
	id, flags, master string
	port              int
	slots             [][2]int // ranges, both ends included
}

// view is the state of the cluster according to one node.
type view []member

func (c *Cluster) view(s *Server) view {
	var all view
	for line := range strings.Lines(c.text(s, "cluster", "nodes")) {
		if m, ok := parseMember(line); ok {
			all = append(all, m)
		}
	}
	return all
}

func parseMember(line string) (member, bool) {
	f := strings.Fields(line)
	if len(f) < 8 {
		return member{}, false
	}
	addr, _, _ := strings.Cut(f[1], "@")
	_, digits, err := net.SplitHostPort(addr)
	if err != nil {
		return member{}, false
	}
	port, _ := strconv.Atoi(digits)
	m := member{id: f[0], flags: f[2], master: f[3], port: port}
	for _, r := range f[8:] {
		var from, to int
		if n, _ := fmt.Sscanf(r, "%d-%d", &from, &to); n == 1 {
			to = from
		} else if n == 0 {
			continue // a slot that is being moved, in brackets
		}
		m.slots = append(m.slots, [2]int{from, to})
	}
	return m, true
}

func (m member) is(flag string) bool { return slices.Contains(strings.Split(m.flags, ","), flag) }

func (m member) owns(slot int) bool {
	return slices.ContainsFunc(m.slots, func(r [2]int) bool { return r[0] <= slot && slot <= r[1] })
}

func (v view) byID(id string) *member {
	for i := range v {
		if v[i].id == id {
			return &v[i]
		}
	}
	return nil
}
