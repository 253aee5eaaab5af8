package goredis

import (
	"fmt"
	"hash/maphash"
	"math"
	"strings"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis/internal/script"
)

// escaper escapes braces in a resource's name: a brace would end the hash tag early, and the
// keys would be in different slots of a cluster.
var escaper = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

var unescaper = strings.NewReplacer("%25", "%", "%7B", "{", "%7D", "}")

// keysOf returns the keys of a resource. All of them share one hash tag.
func keysOf(r engine.Resource) (script.Keys, error) {
	if err := checkPrefix(r.Prefix); err != nil {
		return script.Keys{}, err
	}
	if r.Name == "" {
		return script.Keys{}, fmt.Errorf("%w: the resource has no name", engine.ErrDenied)
	}
	return script.KeysOf(string(appendCore(nil, r))), nil
}

// appendCore appends the core of a resource.
func appendCore(text []byte, r engine.Resource) []byte {
	text = append(append(text, r.Prefix...), ":{"...)
	return append(append(text, escaper.Replace(r.Name)...), '}') // Replace returns the same string if there is nothing to escape
}

// keyCache caches the keys of resources in use, since a program locks the same ones again
// and again. It is set-associative, 64 sets of 4, so that a few names seldom evict each
// other and its memory is small beside that of many leases.
type keyCache struct {
	seed maphash.Seed
	sets [64]keyCacheSet
}

type keyCacheSet [4]atomic.Pointer[cachedKeys]

type cachedKeys struct {
	resource engine.Resource
	keys     script.Keys
}

func (k *keyCache) get(r engine.Resource) (script.Keys, error) {
	s, place := k.set(r)
	if known := s.find(r); known != nil {
		return known.keys, nil
	}
	keys, err := keysOf(r)
	if err == nil {
		for i := range s {
			if s[i].Load() == nil {
				place = i
				break
			}
		}
		s[place].Store(&cachedKeys{r, keys})
	}
	return keys, err
}

// peek is get without an insertion: renewals of many leases must not evict the names that
// are locked and unlocked.
func (k *keyCache) peek(r engine.Resource) (script.Keys, error) {
	s, _ := k.set(r)
	if known := s.find(r); known != nil {
		return known.keys, nil
	}
	return keysOf(r)
}

// set returns the set of a resource, and which entry of it to evict if none is free.
func (k *keyCache) set(r engine.Resource) (s *keyCacheSet, place int) {
	h := maphash.String(k.seed, r.Name)
	return &k.sets[h%uint64(len(k.sets))], int((h >> 32) % uint64(len(keyCacheSet{})))
}

func (s *keyCacheSet) find(r engine.Resource) *cachedKeys {
	for i := range s {
		if known := s[i].Load(); known != nil && known.resource == r {
			return known
		}
	}
	return nil
}

func checkPrefix(prefix string) error {
	if strings.ContainsAny(prefix, "{}") {
		return fmt.Errorf("%w: prefix %q has a brace, which Redis Cluster would take for a hash tag", engine.ErrDenied, prefix)
	}
	return nil
}

// nameOf returns the resource whose core is stored at key, if it is one.
func nameOf(prefix, key string) (string, bool) {
	tag, ok := strings.CutPrefix(key, prefix+":{")
	if !ok {
		return "", false
	}
	tag, ok = strings.CutSuffix(tag, "}")
	if !ok || tag == "" || strings.Contains(tag, "}") {
		return "", false
	}
	return unescaper.Replace(tag), true
}

// glob returns the pattern for SCAN that finds at least the names that match.
func glob(prefix, pattern string) string {
	return globEscaper.Replace(prefix+":{"+escaper.Replace(engine.Literal(pattern))) + "*"
}

var globEscaper = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)

func clientKey(prefix, clientID string) string { return prefix + ":client:" + clientID }

func wakeChannel(prefix, clientID string) string { return prefix + ":wake:" + clientID }

// shardChannel is the channel for one client and resource in a cluster. It is in the slot of
// the resource's keys.
func shardChannel(core, clientID string) string { return core + ":wake:" + clientID }

// Numbers pass through Lua's doubles, which are exact below 2^53.
const maxReserve = math.MaxUint32

func checkRequest(r engine.Request) error {
	switch {
	case r.ID == "":
		return fmt.Errorf("%w: the request has no holder ID", engine.ErrDenied)
	case r.Weight < 1 || r.Capacity < 1:
		return fmt.Errorf("%w: weight %d of capacity %d", engine.ErrDenied, r.Weight, r.Capacity)
	case r.Weight > math.MaxInt32 || r.Capacity > math.MaxInt32:
		return fmt.Errorf("%w: weight %d of capacity %d is above %d", engine.ErrDenied, r.Weight, r.Capacity, math.MaxInt32)
	case r.Reserve > maxReserve:
		return fmt.Errorf("%w: %d reserved tokens", engine.ErrDenied, r.Reserve)
	}
	return checkTTL(r.TTL)
}
