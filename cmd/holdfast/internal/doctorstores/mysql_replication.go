package doctorstores

import (
	"context"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// replication checks which replicas have a grant when it is answered.
func (m *mySQL) replication(ctx context.Context) {
	replicas, known := m.replicas(ctx)
	enabled := m.variable("rpl_semi_sync_source_enabled", "rpl_semi_sync_master_enabled") == "ON"
	status := func(name string) string {
		if v, ok := m.status["rpl_semi_sync_source_"+name]; ok {
			return v
		}
		return m.status["rpl_semi_sync_master_"+name]
	}
	c := m.check("replication").With("replicas", replicas).With("semi_synchronous", enabled)
	const loses = "a failover forgets the leases that a replica had not received, and two may hold a resource until the first one's next renewal"
	switch {
	case enabled && status("status") != "ON":
		c.Warn("bring the replicas back, and set rpl_semi_sync_master_timeout (MySQL 8: rpl_semi_sync_source_timeout) so high that it does not switch itself off",
			"semi-synchronous replication has switched itself off, %s replicas acknowledge: %s", orZero(status("clients")), loses)
	case enabled:
		c.OK("%s replicas acknowledge before a commit is answered (semi-synchronous; after %s ms without an answer it switches itself off)",
			orZero(status("clients")), m.variable("rpl_semi_sync_source_timeout", "rpl_semi_sync_master_timeout"))
	case replicas > 0:
		c.Warn("enable semi-synchronous replication, or fence what the locks protect", "%d replicas, asynchronous: %s", replicas, loses)
	case !known:
		m.check("replication").Unknown("let the user see it (GRANT PROCESS ON *.*), or check whether there are replicas", "the server does not disclose whether it has replicas")
	default:
		c.OK("no replica: while it is away no lease is granted")
	}
}

// replicas returns how many are connected.
func (m *mySQL) replicas(ctx context.Context) (n int64, known bool) {
	if n := number(m.status, "slaves_connected"); n >= 0 { // MariaDB
		return n, true
	}
	var mayLook bool
	err := m.db.QueryRowContext(ctx, "SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'").Scan(&n)
	if err == nil {
		err = m.db.QueryRowContext(ctx, "SELECT COUNT(*) > 0 FROM information_schema.user_privileges WHERE privilege_type = 'PROCESS' AND grantee = CONCAT('''', REPLACE(CURRENT_USER(), '@', '''@'''), '''')").Scan(&mayLook)
	}
	return n, err == nil && (mayLook || n > 0 || m.variables["log_bin"] == "OFF")
}

func orZero(count string) string {
	if count == "" {
		return "0"
	}
	return count
}

// galera checks the state of a node of a Galera cluster.
func (m *mySQL) galera() {
	c := m.check("galera")
	if m.variables["wsrep_on"] != "ON" || m.status["wsrep_cluster_status"] == "" {
		return
	}
	size := number(m.status, "wsrep_cluster_size")
	if state := m.status["wsrep_cluster_status"]; state != "Primary" {
		c.FailAs(diagnosis.Unreachable, "bring the other nodes back", "this node is cut off from the majority of its cluster (wsrep_cluster_status %s)", state)
	}
	if state := m.status["wsrep_local_state_comment"]; state != "Synced" {
		c.Warn("wait until it has caught up", "this node is not in step with its cluster (wsrep_local_state_comment %s)", orZero(state))
	}
	c.WarnIf(m.variables["wsrep_sync_wait"] == "0", "set wsrep_sync_wait=1 in the URL, or connect all clients to one node",
		"wsrep_sync_wait 0: what this node reads may be old, so a snapshot or the answer to a TryLock may be too")
	c.With("nodes", size).WarnIf(size >= 0 && size%2 == 0, "use 3 or 5 nodes, or an arbitrator (garbd)", "%d nodes tolerate no more failures than %d would", size, size-1)
	c.With("nodes", size).Otherwise("%d nodes, %s", size, strings.ToLower(m.status["wsrep_local_state_comment"]))
}
