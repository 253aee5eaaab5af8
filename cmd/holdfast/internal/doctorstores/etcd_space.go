package doctorstores

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// oldestEtcd is the first version that the engine runs on.
const oldestEtcd = "3.4"

func (e *etcd) versions() {
	var versions []versionAt
	for _, m := range e.answered() {
		versions = append(versions, versionAt{m.Place, m.status.Version})
	}
	e.compareVersions("etcd", oldestEtcd, "members", versions)
}

// alarms checks for the alarms with which etcd refuses changes, and for corruption. Each member reports those of all.
func (e *etcd) alarms() {
	c := e.check("alarms")
	up := e.answered()
	if len(up) == 0 {
		return
	}
	seen := ""
	for _, m := range up {
		seen += strings.Join(m.status.Errors, " ") + " "
	}
	if strings.Contains(seen, "NOSPACE") {
		c.Fail("compact (etcdctl compact), defragment (etcdctl defrag), then etcdctl alarm disarm; and set --auto-compaction-retention",
			"NOSPACE: the database has reached its quota, and nothing is granted or renewed")
	}
	if strings.Contains(seen, "CORRUPT") {
		c.Fail("take the member out and add it anew; see etcd's page on data corruption", "CORRUPT: the members' data differ")
	}
	c.Otherwise("none")
}

const (
	// largeDatabase is the size below which unused space does not count.
	largeDatabase = 100 << 20
	// manyRevisions is the number of revisions above which some should have been compacted.
	manyRevisions = 10_000
)

// space compares the size of each database with its quota.
func (e *etcd) space() {
	for _, m := range e.answered() {
		s := m.status
		c := m.Check("space", &e.findings).With("db_bytes", s.DbSize).With("in_use_bytes", s.DbSizeInUse).With("quota_bytes", s.DbSizeQuota)
		switch {
		case s.DbSizeQuota > 0 && float64(s.DbSize) >= nearlyFull*float64(s.DbSizeQuota):
			c.Warn("compact and defragment (etcdctl compact, defrag), set --auto-compaction-retention, or raise --quota-backend-bytes",
				"the database has %s, %.0f %% of its quota: when that is reached, nothing is granted or renewed", diagnosis.Size(s.DbSize), 100*float64(s.DbSize)/float64(s.DbSizeQuota))
		case s.DbSize > largeDatabase && s.DbSize > 2*s.DbSizeInUse:
			c.Warn("defragment it (etcdctl defrag), one member after the other", "of %s only %s are in use", diagnosis.Size(s.DbSize), diagnosis.Size(s.DbSizeInUse))
		case s.DbSizeQuota > 0:
			c.OK("%s of %s", diagnosis.Size(s.DbSize), diagnosis.Size(s.DbSizeQuota))
		default:
			c.OK("%s; before 3.6 etcd does not show its quota, 2 GiB by default", diagnosis.Size(s.DbSize))
		}
	}
}

// compaction checks that old revisions are removed: each change of a lock is one.
func (e *etcd) compaction(ctx context.Context) {
	got, err := e.client.Get(ctx, probe, clientv3.WithSerializable())
	if err != nil {
		return // the user may not read it: see the trial
	}
	c := e.check("compaction").With("revision", got.Header.Revision)
	if _, err = e.client.Get(ctx, probe, clientv3.WithSerializable(), clientv3.WithRev(1)); errors.Is(err, rpctypes.ErrCompacted) {
		c.OK("old revisions are removed")
		return
	}
	if got.Header.Revision > manyRevisions {
		c.Warn("set --auto-compaction-mode and --auto-compaction-retention, which are off by default",
			"%d revisions, and none was ever removed: the database grows until it reaches its quota", got.Header.Revision)
		return
	}
	c.OK("%d revisions so far, none removed yet", got.Header.Revision)
}

// slowDisk is the mean time of an fsync above which there is a warning.
const slowDisk = 50 * time.Millisecond

// fsync checks that members write to disk before they answer. etcd does not show its flag --unsafe-no-fsync, but it
// counts its fsyncs: with the flag there was none for the changes of the trial.
func (e *etcd) fsync() {
	const applied, fsyncs, seconds = "etcd_server_proposals_applied_total", "etcd_disk_wal_fsync_duration_seconds_count", "etcd_disk_wal_fsync_duration_seconds_sum"
	for _, m := range e.answered() {
		c := m.Check("durability", &e.findings)
		changes, count := m.metrics[applied]-m.before[applied], m.metrics[fsyncs]
		if m.before == nil || m.metrics == nil || changes <= 0 {
			c.Unknown("check that it runs without --unsafe-no-fsync", "whether the member writes to disk before it answers: its metrics are not reachable, or show no change")
			continue
		}
		mean := time.Duration(m.metrics[seconds] / max(1, count) * float64(time.Second))
		c = c.With("fsyncs", count).With("fsync_mean_ms", diagnosis.Millis(mean))
		switch {
		case count == m.before[fsyncs]:
			c.Warn("run it without --unsafe-no-fsync", "the member does not write its log to disk before it answers (--unsafe-no-fsync): a power loss forgets leases, and two may hold a resource")
		case mean > slowDisk:
			c.Warn("give etcd a faster disk, of its own", "an fsync of the log takes %s on average, and each grant and renewal waits for one on a majority", diagnosis.Span(mean))
		default:
			c.OK("the log is written to disk, which takes %s on average", diagnosis.Span(mean))
		}
	}
}

// clocksApart is by how much the clocks of clients may differ; see docs/GUARANTEES.md.
const clocksApart = time.Minute

// clocks compares this machine's clock with the members'. Locks do not depend on any of them; marks
// follow those of the clients.
func (e *etcd) clocks() {
	for _, m := range e.answered() {
		if !m.clock.Known {
			continue
		}
		c := m.Check("clock", &e.findings).With("ahead_ms", diagnosis.Millis(m.clock.Ahead))
		c.WarnIf(m.clock.Ahead.Abs() > clocksApart, "let all machines set their clocks by NTP, slewing", "%s: marks (Once, Job) follow the clocks of clients, and one of the two is wrong", m.clock)
		c.Otherwise("%s; leases do not depend on it, and marks follow the clocks of clients", m.clock)
	}
}
