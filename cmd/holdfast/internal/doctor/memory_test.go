package doctor

import (
	"strconv"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
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
	require(t, r, "eviction", diagnosis.Warn, "allkeys-lru, which waits for a maxmemory")
	requireWorst(t, r, diagnosis.None)

	set("maxmemory", "100mb")
	r = examine(t, defaults(), s.URL())
	require(t, r, "eviction", diagnosis.Fail, "allkeys-lru may evict leases")
	requireWorst(t, r, diagnosis.Misconfig)

	// All keys of Holdfast have a TTL.
	set("maxmemory-policy", "volatile-ttl")
	require(t, examine(t, defaults(), s.URL()), "eviction", diagnosis.Fail, "volatile-ttl may evict leases")

	set("maxmemory-policy", "noeviction")
	r = examine(t, defaults(), s.URL())
	require(t, r, "eviction", diagnosis.OK, "noeviction")
	require(t, r, "memory", diagnosis.OK, "of maxmemory")

	used, err := s.Client().Info(t.Context(), "memory").Result()
	if err != nil {
		t.Fatal(err)
	}
	set("maxmemory", "100kb")
	r = examine(t, defaults(), s.URL())
	require(t, r, "memory", diagnosis.Fail, "nothing more is granted")
	requireWorst(t, r, diagnosis.Misconfig)

	nearly, _ := parseFields(used).number("used_memory")
	set("maxmemory", strconv.FormatInt(nearly+nearly/8, 10))
	require(t, examine(t, defaults(), s.URL()), "memory", diagnosis.Warn, "% of .* of maxmemory used")
}
