package doctorstores

import "context"

// replication checks which standbys have a grant when it is answered.
func (p *postgreSQL) replication(ctx context.Context) {
	c := p.check("replication")
	var all, hidden, synchronous, readers, behind int64
	// Only a standby replays: pg_receivewal does not, and a logical subscriber has a slot of that kind. Who has not replied yet counts as a standby.
	err := p.row(ctx, `SELECT count(*) FILTER (WHERE standby), count(*) FILTER (WHERE state IS NULL), count(*) FILTER (WHERE standby AND sync),
		count(*) FILTER (WHERE NOT standby AND sync), coalesce(max(pg_wal_lsn_diff(pg_current_wal_lsn(), flush_lsn)) FILTER (WHERE standby), 0)::bigint
		FROM (SELECT *, coalesce(sync_state IN ('sync', 'quorum'), false) AS sync, write_lsn IS NULL OR (replay_lsn IS NOT NULL
			AND NOT EXISTS (SELECT FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')) AS standby
			FROM pg_stat_replication r) AS senders`, &all, &hidden, &synchronous, &readers, &behind)
	if c.Unanswered(err) {
		return
	}
	required, commit := p.settings["synchronous_standby_names"], p.settings["synchronous_commit"]
	c = c.With("standbys", all).With("synchronous", synchronous).With("bytes_behind", behind)
	const loses = "a failover forgets the leases that a standby had not received, and two may hold a resource until the first one's next renewal"
	switch {
	case required != "" && (commit == "off" || commit == "local"):
		c.Warn("set synchronous_commit = on or remote_write for the user of the locks",
			"synchronous_standby_names %q is required, and with synchronous_commit %s commits do not wait for it: %s", required, commit, loses)
	case required != "" && hidden > 0:
		c.Unknown("grant pg_read_all_stats to the user, to see them", "%d standbys, whose state is hidden; synchronous_standby_names %q", all, required)
	case required != "" && synchronous == 0 && readers > 0:
		c.Warn("name the standbys in synchronous_standby_names", "synchronous_standby_names %q, and what is synchronous is no standby (pg_receivewal, or a logical subscriber): %s", required, loses)
	case required != "" && synchronous == 0:
		c.Fail("bring the standby back, or take it out of synchronous_standby_names", "synchronous_standby_names %q, and none of %d standbys is synchronous: every commit waits", required, all)
	case required != "":
		c.OK("%d of %d standbys have what is granted (synchronous_standby_names %q, synchronous_commit %s)", synchronous, all, required, commit)
	case all == 0:
		c.OK("no standby: while it is away no lease is granted")
	default:
		c.Warn("set synchronous_standby_names = 'ANY 1 (*)', or fence what the locks protect", "%d standbys, none synchronous, at most %d bytes behind: %s", all, behind, loses)
	}
}
