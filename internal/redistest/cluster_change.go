package redistest

import "strconv"

// FailOver makes the replica of a master take its place: in good order if the
// master lives, by force if it is dead. It returns the new master when every
// living node knows it.
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

// Promote is FailOver that returns as soon as the replica is the master in its
// own eyes.
func (c *Cluster) Promote(master *Server) *Server {
	c.t.Helper()
	successor := c.ReplicaOf(master)
	if master.PID() != 0 {
		c.do(successor, "cluster", "failover")
	} else {
		c.do(successor, "cluster", "failover", "takeover")
	}
	c.await("the replica has taken over", func() bool { return c.knows(successor, successor) })
	return successor
}

// knows reports whether a node sees another one as a master with slots.
func (c *Cluster) knows(s, master *Server) bool {
	for _, m := range c.view(s) {
		if m.port == master.port {
			return len(m.slots) > 0
		}
	}
	return false
}

// Rejoin restarts a dead server, which becomes the replica of whoever took its
// place, and waits until the cluster is healthy.
func (c *Cluster) Rejoin(s *Server) {
	c.t.Helper()
	s.Restart()
	c.AwaitHealthy()
}

// Migration is a slot on its way from one master to another. While it lasts,
// the old master answers ASK for keys that have moved or never were, and both
// answer TRYAGAIN where some keys of a command have moved and some have not.
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

// Slot is the slot on its way.
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

// Finish moves the rest of the keys and gives the slot to its new master. It
// returns when every living node knows.
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

// HoldBackReplicas stops the flow from a master to its replicas and refuses them
// until ReleaseReplicas: what is written from now on, only the master has.
func (s *Server) HoldBackReplicas() {
	s.operate([]any{"acl", "setuser", "default", "-psync", "-sync"}, []any{"client", "kill", "type", "replica"})
}

// ReleaseReplicas ends HoldBackReplicas. SYNC stays forbidden: a replica whose
// PSYNC was refused a moment ago would use it, and never say what it has.
func (s *Server) ReleaseReplicas() {
	s.operate([]any{"acl", "setuser", "default", "+psync"})
}
