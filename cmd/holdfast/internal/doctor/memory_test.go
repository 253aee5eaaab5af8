package doctor

import (
	"strconv"
	"testing"
)

func TestEviction(t *testing.T) {
	t.Parallel()
	s := start(t)
	set := func(name, value string) {
		t.Helper()
		if err := s.Client().ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set("maxmemory-policy", "allkeys-lru")
	r := examine(t, defaults(), s.URL())
	require(t, r, "eviction", Warn, "allkeys-lru, which waits for a maxmemory")
	requireWorst(t, r, None)

	set("maxmemory", "100mb")
	r = examine(t, defaults(), s.URL())
	require(t, r, "eviction", Fail, "allkeys-lru may evict leases")
	requireWorst(t, r, Misconfig)

	// All keys of Holdfast have a TTL.
	set("maxmemory-policy", "volatile-ttl")
	require(t, examine(t, defaults(), s.URL()), "eviction", Fail, "volatile-ttl may evict leases")

	set("maxmemory-policy", "noeviction")
	r = examine(t, defaults(), s.URL())
	require(t, r, "eviction", OK, "noeviction")
	require(t, r, "memory", OK, "of maxmemory")

	used, err := s.Client().Info(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	set("maxmemory", "100kb")
	r = examine(t, defaults(), s.URL())
	require(t, r, "memory", Fail, "nothing more is granted")
	requireWorst(t, r, Misconfig)

	nearly, _ := parseFields(used).number("used_memory")
	set("maxmemory", strconv.FormatInt(nearly+nearly/8, 10))
	require(t, examine(t, defaults(), s.URL()), "memory", Warn, "% of .* of maxmemory used")
}
