package doctor

import (
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// What a server has after a restart.
type memory uint8

const (
	unsure  memory = iota // it is not known
	nothing               // it restarts empty
	older1s               // AOF with everysec: all but the last 1 or 2 s after a power loss, or a crash while an fsync takes long
	snapped               // the last RDB snapshot
	all                   // AOF with fsync always
)

// remembers returns what a server has after a restart.
func (s *server) remembers() memory {
	aof, ok := s.info["aof_enabled"]
	if !ok {
		return unsure
	}
	fsync, known := s.conf["appendfsync"]
	save, knownSave := s.conf["save"]
	switch {
	case aof == "1" && !known:
		return unsure
	case aof == "1" && fsync == "always":
		return all
	case aof == "1" && fsync == "everysec":
		return older1s
	case aof == "1": // "no": the operating system decides when to write
		return snapped
	case !knownSave:
		return unsure
	case save != "":
		return snapped
	}
	return nothing
}

// checkPersistence checks whether leases survive a restart: without them the server grants them
// again.
func (s *server) checkPersistence(r *diagnosis.Report, of *site) {
	c := s.Check("persistence", &r.Findings)
	if s.info["aof_enabled"] == "1" && s.info["aof_last_write_status"] == "err" {
		c.Fail("check its log and disk", "the append-only file cannot be written: every write is refused")
		return
	}
	if s.info["rdb_last_bgsave_status"] == "err" && s.conf["stop-writes-on-bgsave-error"] != "no" && s.conf["save"] != "" {
		c.Fail("check its log and disk, or set stop-writes-on-bgsave-error no", "the last snapshot failed: every write is refused until one succeeds")
		return
	}
	const forgets = "so that after it two may hold a resource until the first one's lease would have ended"
	remedy := "set appendonly yes (appendfsync everysec), or accept it and fence what the locks protect"
	often := "set appendfsync everysec or always"
	failsOver := of.node.Kind != store.Single
	switch {
	case of.voter: // see checkRestart
		remedy, often = "set appendonly yes and appendfsync always", "set appendfsync always"
	case failsOver:
		remedy = "set appendonly yes"
	}
	if failsOver {
		remedy += ", and do not let a master restart by itself before a replica has taken over"
	}
	appends := s.info["aof_enabled"] == "1"
	switch kept := s.remembers(); {
	case kept == all:
		c.OK("append-only file, fsync always: a restart forgets nothing")
	case kept == older1s:
		c.OK("append-only file, fsync everysec: a power loss, or a crash while the disk is slow, forgets the leases of the last 1 to 2 s, %s", forgets)
	case kept == snapped && appends:
		c.Warn(often, "append-only file, fsync no: a power loss forgets what the system had not written yet, %s", forgets)
	case kept == snapped:
		c.Warn(remedy, "snapshots only: a restart forgets the leases since the last one, %s", forgets)
	case kept == nothing:
		c.Warn(remedy, "none: a restart forgets every lease, %s", forgets)
	case appends:
		c.Unknown("check the service's console: locks need appendonly yes", "append-only file; how often it is synced the server does not disclose")
	default:
		c.Unknown("check the service's console: locks need appendonly yes", "the server does not disclose what it keeps over a restart")
	}
}
