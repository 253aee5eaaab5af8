// Package script holds the Lua scripts of the Redis engine: one file a script,
// with a typed Go method beside it, and the fragments that scripts share.
//
// A line "--#include name" in a script stands for the text of name.lua. What
// the scripts store and why is told in docs/PROTOCOL.md; what they do is
// specified by package internal/queue, and a differential test compares the
// two. The package knows no Redis client: it makes the arguments of a command
// and reads its reply.
package script

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

//go:embed *.lua
var files embed.FS

// Set is the scripts, ready to be called.
type Set struct {
	acquire, share, renew, renewAll, release, resize, breaks, tidy, snapshot, peek, together Script
	// The same for a store that is out of memory: see relieve.
	renewFull, releaseFull, resizeFull Script

	spans spans
}

// ForCluster returns the replacements that make NewWith give the scripts for a
// Redis Cluster, where wake-ups have a channel for each client and resource.
func ForCluster() map[string]string {
	return map[string]string{"notify": "--#include notify_cluster"}
}

// Script is the text of a Lua script and the SHA1 by which Redis knows it.
type Script struct {
	text string
	sha  any // a string, made an argument once and not for each call
}

// New returns the scripts of production. They remember a resource for the
// retention after its last use.
func New(retention time.Duration) (*Set, error) { return NewWith(retention, nil) }

// NewWith returns the scripts with some fragments replaced, by name: a test
// makes time virtual by replacing "clock".
func NewWith(retention time.Duration, replaced map[string]string) (*Set, error) {
	l := loader{
		head:     head(retention),
		replaced: replaced,
	}
	s := &Set{
		acquire:     l.script("acquire", ""),
		share:       l.script("share", ""),
		renew:       l.script("renew", ""),
		renewAll:    l.script("renew_all", ""),
		release:     l.script("release", ""),
		resize:      l.script("resize", ""),
		breaks:      l.script("break", ""),
		tidy:        l.script("tidy", ""),
		snapshot:    l.script("snapshot", ""),
		peek:        l.script("peek", ""),
		together:    l.script("together", ""),
		renewFull:   l.script("renew", relieve),
		releaseFull: l.script("release", relieve),
		resizeFull:  l.script("resize", relieve),
	}
	return s, l.err
}

// head is what every script begins with. Keys have to outlive what they hold by
// the retention; scripts see to it that they do by the reach, which is a spell
// more. So renew_all need not look while it extends a lease within one spell.
func head(retention time.Duration) string {
	spell := retention / 16
	return fmt.Sprintf("local retention = %d\nlocal spell, reach = %d, %d\n",
		retention.Microseconds(), spell.Microseconds(), (retention + spell).Microseconds())
}

// relieve is put before a script that has to run although Redis is out of
// memory. Redis refuses commands that may need memory only until a script has
// written: a write that needs none opens the way, here one without effect.
const relieve = "redis.call('HDEL', KEYS[1], '')\n"

// loader keeps the first error, so that callers check once.
type loader struct {
	head     string // what every script begins with
	replaced map[string]string
	clock    bool // the present script has it
	err      error
}

func (l *loader) script(name, before string) Script {
	l.clock = false
	text := l.head + before + l.expand(l.file(name))
	sum := sha1.Sum([]byte(text))
	return Script{text: text, sha: hex.EncodeToString(sum[:])}
}

// expand puts fragments in the place of their include lines.
func (l *loader) expand(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--#include "); ok {
			if name == "clock" && l.clock {
				continue // a script within another: the time is the same for both
			}
			l.clock = l.clock || name == "clock"
			line = l.expand(l.file(name))
		}
		out.WriteString(line)
	}
	return out.String()
}

func (l *loader) file(name string) string {
	if text, ok := l.replaced[name]; ok {
		return text + "\n"
	}
	text, err := files.ReadFile(name + ".lua")
	if err != nil && l.err == nil {
		l.err = fmt.Errorf("script %s: %w", name, err)
	}
	return string(text)
}

// Keys are the keys of one resource, in the order of every script's KEYS, made
// arguments once and not for each call.
type Keys struct {
	core string
	args [2]any
}

// KeysOf returns the keys of the resource with that core. All of them must share
// its hash tag.
func KeysOf(core string) Keys {
	line := core + ":line"
	core = line[:len(core)] // one text for both
	return Keys{core, [2]any{core, line}}
}

// Core returns the first of the keys.
func (k Keys) Core() string { return k.core }

// Call is one run of a script.
type Call struct {
	script Script
	args   []any // EVALSHA and all that follows
	// full is the same call for a store that is out of memory, if there is one.
	full Script
}

// Where call puts the core, and the first argument after the keys.
const (
	coreArg  = 3
	firstArg = 5
)

// call makes a call. There is no room for arguments that are added: few calls
// have some.
func (s Script) call(k Keys, args ...any) Call {
	all := make([]any, 0, firstArg+len(args))
	all = append(all, "evalsha", s.sha, len(k.args), k.args[0], k.args[1])
	return Call{script: s, args: append(all, args...)}
}

// add appends arguments to a call that is not sent yet.
func (c *Call) add(args ...any) { c.args = append(c.args, args...) }

// Args returns the command that runs the script by its SHA1.
func (c Call) Args() []any { return c.args }

// Key returns the core of the resource, by which a cluster finds the node.
func (c Call) Key() string { return c.args[coreArg].(string) }

// Keys returns the keys of the resource.
func (c Call) Keys() Keys { return Keys{c.Key(), [2]any{c.args[coreArg], c.args[coreArg+1]}} }

// Text returns the command that runs the script by its text, which also makes
// Redis remember it: for the answer NOSCRIPT.
func (c Call) Text() []any {
	args := append([]any(nil), c.args...)
	args[0], args[1] = "eval", c.script.text
	return args
}

// WhenFull returns the call to make when Redis answered OOM, if there is one:
// giving back and keeping what one has must not fail for lack of memory.
func (c Call) WhenFull() (Call, bool) {
	if c.full.text == "" {
		return Call{}, false
	}
	full := Call{script: c.full, args: append([]any(nil), c.args...)}
	full.args[1] = c.full.sha
	return full, true
}
