package fence

import (
	"strings"

	"github.com/redis/go-redis/v9"
)

// braces escapes a name inside the hash tag that encloses it.
var braces = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// guardKey returns the key of the newest token. It has the hash tag of the
// resource's name as Redis Cluster computes it, so that data under that name,
// or under the name in braces, are in the same slot. The suffixes distinguish
// names such as "a", "{a}" and "a}".
func guardKey(prefix, resource string) string {
	switch {
	case !strings.ContainsAny(resource, "{}"):
		return prefix + ":{" + resource + "}"
	case hashTag(resource) != resource:
		return prefix + ":" + resource + ":tagged"
	}
	// No key with a tag can be in the slot of such a name.
	return prefix + ":{" + braces.Replace(resource) + "}:escaped"
}

// hashTag returns the part of a key that determines its slot: the text between
// the first brace and the next closing one, or the whole key.
func hashTag(key string) string {
	_, rest, ok := strings.Cut(key, "{")
	if !ok {
		return key
	}
	tag, _, ok := strings.Cut(rest, "}")
	if !ok || tag == "" {
		return key
	}
	return tag
}

// checkSlot returns an error if a guard and the data are in different slots of
// a cluster or a ring. A cluster would refuse the call; a ring would write past
// the guard.
func checkSlot(rdb redis.UniversalClient, guard string, keys []string) error {
	switch rdb.(type) {
	case *redis.ClusterClient, *redis.Ring:
	default:
		return nil
	}
	for _, key := range keys {
		if hashTag(key) != hashTag(guard) {
			return optionError("key %q is not in the slot of its guard %q: both need the hash tag {%s}", key, guard, hashTag(guard))
		}
	}
	return nil
}
