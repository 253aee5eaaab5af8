package doctor

import "github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"

// checkEviction checks that the server does not evict keys: that would lose leases that are held.
// All keys of Holdfast have a TTL, so volatile-* evicts them like allkeys-*.
func (s *server) checkEviction(r *diagnosis.Report) {
	c := s.Check("eviction", &r.Findings)
	policy, ok := s.setting("maxmemory-policy", "maxmemory_policy")
	if !ok {
		c.Unknown("check that maxmemory-policy is noeviction", "the server does not disclose its maxmemory-policy")
		return
	}
	limit, known := s.limit("maxmemory")
	c = c.With("policy", policy)
	switch {
	case policy == "noeviction":
		c.OK("maxmemory-policy noeviction")
	case known && limit == 0:
		c.Warn("set maxmemory-policy noeviction before maxmemory is set",
			"maxmemory-policy %s, which waits for a maxmemory to act", policy)
	default:
		c.Fail("set maxmemory-policy noeviction, or use a Redis that is not a cache",
			"maxmemory-policy %s may evict leases while they are held, and two may then hold a resource", policy)
	}
}

// limit returns a setting that is a number, such as maxmemory, of which 0 is no limit.
func (s *server) limit(name string) (int64, bool) {
	text, ok := s.setting(name, name)
	if !ok {
		return 0, false
	}
	return fields{"n": text}.number("n")
}

// nearlyFull is the fraction of the memory above which there is a warning.
const nearlyFull = 0.8

// checkMemory checks that there is free memory: without it the server grants no lease.
func (s *server) checkMemory(r *diagnosis.Report) {
	c := s.Check("memory", &r.Findings)
	used, ok := s.info.number("used_memory")
	limit, known := s.limit("maxmemory")
	if !ok || !known {
		return // checkAnswers reports that INFO and CONFIG are refused
	}
	of, what := limit, "maxmemory"
	if limit == 0 {
		of, _ = s.info.number("total_system_memory")
		what = "the machine's memory, and no maxmemory"
	}
	if of == 0 {
		c.OK("%s used, and no maxmemory", diagnosis.Size(used))
		return
	}
	part := float64(used) / float64(of)
	c = c.With("used_bytes", used).With("limit_bytes", limit)
	switch {
	case limit > 0 && part >= 1:
		c.Fail("raise maxmemory, or find what fills it (redis-cli --bigkeys)",
			"%s used of %s: nothing more is granted (renewals and releases go on)", diagnosis.Size(used), diagnosis.Size(of))
	case part >= nearlyFull:
		c.Warn("raise maxmemory, or find what fills it (redis-cli --bigkeys)", "%.0f %% of %s of %s used", 100*part, diagnosis.Size(of), what)
	default:
		c.OK("%s used, %.0f %% of %s", diagnosis.Size(used), 100*part, what)
	}
}
