package doctor

import "github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"

// checkEviction checks that the server does not evict keys: that would lose leases that are held.
// All keys of Holdfast have a TTL, so volatile-* evicts them like allkeys-*.
func (s *server) checkEviction() []diagnosis.Finding {
	const check = "eviction"
	policy, ok := s.setting("maxmemory-policy", "maxmemory_policy")
	if !ok {
		return []diagnosis.Finding{s.Unknown(check, "check that maxmemory-policy is noeviction", "the server does not disclose its maxmemory-policy")}
	}
	limit, known := s.limit("maxmemory")
	switch {
	case policy == "noeviction":
		return []diagnosis.Finding{s.OK(check, "maxmemory-policy noeviction").With("policy", policy)}
	case known && limit == 0:
		return []diagnosis.Finding{s.Warn(check, "set maxmemory-policy noeviction before maxmemory is set",
			"maxmemory-policy %s, which waits for a maxmemory to act", policy).With("policy", policy)}
	}
	return []diagnosis.Finding{s.Fail(check, "set maxmemory-policy noeviction, or use a Redis that is not a cache",
		"maxmemory-policy %s may evict leases while they are held, and two may then hold a resource", policy).With("policy", policy)}
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
func (s *server) checkMemory() []diagnosis.Finding {
	const check = "memory"
	used, ok := s.info.number("used_memory")
	limit, known := s.limit("maxmemory")
	if !ok || !known {
		return nil // checkAnswers reports that INFO and CONFIG are refused
	}
	of, what := limit, "maxmemory"
	if limit == 0 {
		of, _ = s.info.number("total_system_memory")
		what = "the machine's memory, and no maxmemory"
	}
	if of == 0 {
		return []diagnosis.Finding{s.OK(check, "%s used, and no maxmemory", diagnosis.Size(used))}
	}
	part := float64(used) / float64(of)
	values := func(f diagnosis.Finding) []diagnosis.Finding {
		return []diagnosis.Finding{f.With("used_bytes", used).With("limit_bytes", limit)}
	}
	switch {
	case limit > 0 && part >= 1:
		return values(s.Fail(check, "raise maxmemory, or find what fills it (redis-cli --bigkeys)",
			"%s used of %s: nothing more is granted (renewals and releases go on)", diagnosis.Size(used), diagnosis.Size(of)))
	case part >= nearlyFull:
		return values(s.Warn(check, "raise maxmemory, or find what fills it (redis-cli --bigkeys)", "%.0f %% of %s of %s used", 100*part, diagnosis.Size(of), what))
	}
	return values(s.OK(check, "%s used, %.0f %% of %s", diagnosis.Size(used), 100*part, what))
}
