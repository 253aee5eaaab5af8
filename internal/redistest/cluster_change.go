package redistest

import (
	"strconv"
	"time"
)

// manualFailover is how long a replica tries to take over in good order, and a little more.
const manualFailover = 6 * time.Second

// FailOver promotes the replica of a master: with a normal failover if the master lives, by force
// if it is dead. It returns the new master when every living node sees it.
func (c *Cluster) FailOver(master *Server) *Server {
	c.t.Helper()
	successor := c.Promote(master)
	c.await("all nodes know the new master", func() bool {
		for _, s := range c.living() {
			if !c.knows(s, successor) {
				return false
			}
		}
		return true
	})
	return successor
}

// Promote is FailOver, but returns as soon as the replica itself reports to be the master.
func (c *Cluster) Promote(master *Server) *Server {
	c.t.Helper()
	successor := c.ReplicaOf(master)
	if master.PID() != 0 {
		c.do(successor, "cluster", "failover")
	} else {
		c.do(successor, "cluster", "failover", "takeover")
	}
	begun := time.Now()
	c.await("the replica has taken over", func() bool {
		if master.PID() != 0 && time.Since(begun) > manualFailover { // it was given up: the machine is slow
			begun = time.Now()
			_ = c.text(successor, "cluster", "failover") // it answers an error if it is the master by now
		}
		return c.knows(successor, successor)
	})
	return successor
}

// knows reports whether a node sees another node as a master with slots.
func (c *Cluster) knows(s, master *Server) bool {
	for _, m := range c.view(s) {
		if m.port == master.port {
			return len(m.slots) > 0
		}
	}
	return false
}

// Known reports whether every node that answers sees a server as a master with slots.
func (c *Cluster) Known(master *Server) bool {
	known := false
	for _, s := range c.living() {
		view := c.view(s)
		if len(view) > 0 && !c.knows(s, master) {
			return false
		}
		known = known || len(view) > 0
	}
	return known
}

// Rejoin restarts a dead server, which becomes the replica of the present master of its slots, and
// waits until the cluster is healthy.
func (c *Cluster) Rejoin(s *Server) {
	c.t.Helper()
	s.Restart()
	c.AwaitHealthy()
}

// Migration is the move of a slot from one master to another. During it, the old master answers ASK
// for keys that it does not have, and both answer TRYAGAIN if only some keys of a command have
// moved.
type Migration struct {
	c        *Cluster
	slot     int
	from, to *Server
}

// Migrate begins to move the slot of a key to another master. No key is moved
// yet.
func (c *Cluster) Migrate(key string, to *Server) *Migration {
	c.t.Helper()
	m := &Migration{c: c, slot: c.Slot(key), from: c.MasterOf(key), to: to}
	c.do(to, "cluster", "setslot", m.slot, "importing", c.id(m.from))
	c.do(m.from, "cluster", "setslot", m.slot, "migrating", c.id(to))
	return m
}

// Slot returns the slot that is being moved.
func (m *Migration) Slot() int { return m.slot }

// Move moves up to n keys of the slot and returns how many it moved.
func (m *Migration) Move(n int) int {
	m.c.t.Helper()
	keys, _ := m.c.do(m.from, "cluster", "getkeysinslot", m.slot, n).([]any)
	if len(keys) == 0 {
		return 0
	}
	m.MoveKeys(keys...)
	return len(keys)
}

// MoveKeys moves keys of the slot, by name.
func (m *Migration) MoveKeys(keys ...any) {
	m.c.t.Helper()
	args := []any{"migrate", "127.0.0.1", strconv.Itoa(m.to.port), "", 0, 5000}
	if password := m.to.conf.password; password != "" {
		args = append(args, "auth", password)
	}
	m.c.do(m.from, append(append(args, "keys"), keys...)...)
}

// Finish moves the rest of the keys and assigns the slot to its new master. It returns when every
// living node has the change.
func (m *Migration) Finish() {
	m.c.t.Helper()
	for m.Move(100) > 0 {
	}
	id := m.c.id(m.to)
	for _, s := range append([]*Server{m.to, m.from}, m.c.Masters()...) {
		if s.PID() != 0 {
			m.c.do(s, "cluster", "setslot", m.slot, "node", id)
		}
	}
	m.c.await("all nodes know who has the slot", func() bool {
		for _, s := range m.c.living() {
			for _, member := range m.c.view(s) {
				if member.owns(m.slot) != (member.port == m.to.port) {
					return false
				}
			}
		}
		return true
	})
}

// HoldBackReplicas stops the replication from a master until ReleaseReplicas: only the master has
// later writes.
func (s *Server) HoldBackReplicas() {
	s.operate([]any{"acl", "setuser", "default", "-psync", "-sync"}, []any{"client", "kill", "type", "replica"})
}

// ReleaseReplicas ends HoldBackReplicas. SYNC stays forbidden: a replica whose PSYNC was refused
// would use it, and never acknowledge anything.
func (s *Server) ReleaseReplicas() {
	s.operate([]any{"acl", "setuser", "default", "+psync"})
}
