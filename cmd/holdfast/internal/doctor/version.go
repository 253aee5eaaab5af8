package doctor

import (
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// oldest is the first version of Redis that Holdfast runs on.
const oldest = "6.2"

// sharded is the first version with pub/sub that stays inside one shard.
const sharded = "7.0"

// flavour returns the name and version of the server software; both are empty if INFO does not have
// them.
func (f fields) flavour() (name, version string) {
	_, keydb := f["mvcc_depth"]
	switch {
	case f["dragonfly_version"] != "":
		return "Dragonfly", strings.TrimPrefix(strings.TrimPrefix(f["dragonfly_version"], "df-"), "v")
	case f["valkey_version"] != "":
		return "Valkey", f["valkey_version"]
	case keydb:
		return "KeyDB", f["redis_version"]
	case f["redis_version"] != "":
		return "Redis", f["redis_version"]
	}
	return "", ""
}

// checkVersion checks that Holdfast runs on this server.
func (s *server) checkVersion(r *diagnosis.Report, of *site) {
	c := s.Check("version", &r.Findings)
	if s.infoErr != nil {
		c.Unknown("check that it is Redis "+oldest+" or newer", "INFO is refused")
		return
	}
	name, version := s.info.flavour()
	c = c.With("flavour", name).With("version", version)
	switch {
	case name == "":
		c.Warn("for production use Redis "+oldest+" or newer, or Valkey",
			"the server reports no version, like test servers such as miniredis")
	case name == "Redis" && diagnosis.Older(version, oldest):
		c.Fail("upgrade to Redis "+oldest+" or newer: the scripts need its commands", "Redis %s is too old", version)
	case name == "KeyDB" || name == "Dragonfly":
		c.Warn("use Redis "+oldest+" or newer, or Valkey; or run the conformance suite (engine/enginetest) on it first",
			"%s %s is not among what Holdfast is tested on", name, version)
	case name == "Redis" && of.node.Kind == clusterURL && diagnosis.Older(version, sharded):
		c.Warn("upgrade to Redis "+sharded+" or newer", "Redis %s sends every wake-up to all servers of the cluster", version)
	default:
		c.OK("%s %s", name, version)
	}
}
