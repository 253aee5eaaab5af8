package goredis

import (
	"fmt"
	"math"
	"strings"

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
	return script.KeysOf(appendCore(make([]byte, 0, 96), r)), nil
}

// appendCore appends the core of a resource.
func appendCore(text []byte, r engine.Resource) []byte {
	text = append(append(text, r.Prefix...), ":{"...)
	return append(append(text, escaper.Replace(r.Name)...), '}') // Replace returns the same string if there is nothing to escape
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
