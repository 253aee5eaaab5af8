// Package script holds the Lua scripts of the Redis engine: one file a script,
// with a typed Go method beside it, and the fragments that scripts share.
//
// A line "--#include name" in a script stands for the text of name.lua up to its first section,
// "--#include name.part" for the section that "--#section part" begins there, and
// "--#include constants" for the constants that the script uses. Testdata has the scripts
// as Redis runs them; go test -rewrite writes these files.
//
// docs/PROTOCOL.md says what the scripts store and why. Package internal/queue specifies what
// they do, and a differential test compares the two. The package has no Redis client: it makes
// the arguments of a command and reads its reply.
package script

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"
)

//go:embed *.lua
var files embed.FS

// Set is the scripts, ready to be called.
type Set struct {
	acquire, acquireShared, renew, renewBatch, release, resize, breaks, clear, snapshot, peek, batch *luaScript
	// The same scripts for a store that is out of memory; see relieve.
	renewFull, releaseFull, resizeFull *luaScript
}

// ForCluster returns the replacements that make NewWith give the scripts for a
// Redis Cluster, where wake-ups have a channel for each client and resource.
func ForCluster() map[string]string {
	return map[string]string{
		"channel": "",
		"notify":  "--#include notify_cluster",
		"deaf":    "local function deaf() return false end", // it is not known: a node sees its own subscriptions
	}
}

// luaScript is a Lua script. It is expanded when it is first needed: a program that holds one
// lease, as the command does, uses few of the scripts.
type luaScript struct {
	expanded func() (text string, sha any)
}

// text returns the script as Redis runs it.
func (s *luaScript) text() string {
	text, _ := s.expanded()
	return text
}

// sha returns the SHA1 by which Redis knows the script: a string, converted to an argument once,
// not for each call.
func (s *luaScript) sha() any {
	_, sha := s.expanded()
	return sha
}

// New returns the scripts of production. They remember a resource for the
// retention after its last use.
func New(retention time.Duration) (*Set, error) { return NewWith(retention, nil) }

// NewWith returns the scripts with some fragments or constants replaced, by name: a test
// makes time virtual by replacing "clock". The map must not change afterwards.
func NewWith(retention time.Duration, replaced map[string]string) (*Set, error) {
	values, fragments := constants(retention), sync.OnceValue(readFragments)
	script := func(name, before string) *luaScript {
		return &luaScript{sync.OnceValues(func() (string, any) {
			l := loader{constants: values, fragments: fragments, replaced: replaced}
			return l.script(name, before)
		})}
	}
	s := &Set{
		acquire:       script("acquire", ""),
		acquireShared: script("acquire_shared", ""),
		renew:         script("renew", ""),
		renewBatch:    script("renew_batch", ""),
		release:       script("release", ""),
		resize:        script("resize", ""),
		breaks:        script("break", ""),
		clear:         script("clear", ""),
		snapshot:      script("snapshot", ""),
		peek:          script("peek", ""),
		batch:         script("batch", ""),
		renewFull:     script("renew", relieve),
		releaseFull:   script("release", relieve),
		resizeFull:    script("resize", relieve),
	}
	// TestIncludes checks the files; the replacements are checked here.
	check := loader{fragments: fragments, replaced: replaced}
	for _, text := range replaced {
		check.expand(new(strings.Builder), text)
	}
	return s, check.err
}

// relieve precedes a script that must run although Redis is out of memory. Redis refuses commands
// that may need memory only until the script has written something. So relieve makes a write
// that needs no memory and has no effect.
const relieve = "redis.call('HDEL', KEYS[1], '')\n"

// loader keeps the first error, so that callers check once.
type loader struct {
	constants []constant
	fragments func() map[string]string
	replaced  map[string]string
	once      map[string]bool // fragments that a script has once, even if it contains another script
	err       error
}

func (l *loader) script(name, before string) (text string, sha any) {
	l.once = map[string]bool{"constants": false, "clock": false}
	out := new(strings.Builder)
	out.Grow(len(before) + 8*len(l.fragment(name))) // most of a script is what it includes
	out.WriteString(before)
	l.expand(out, l.fragment(name))
	text = strings.Replace(out.String(), constantsHere, declare(l.constants, out.String(), l.replaced), 1)
	sum := sha1.Sum([]byte(text))
	return text, hex.EncodeToString(sum[:])
}

// constantsHere stands for the constants until it is known which of them a script uses.
const constantsHere = "--#constants\n"

// expand writes a text with its include lines replaced by their fragments.
func (l *loader) expand(out *strings.Builder, text string) {
	for line := range strings.Lines(text) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "--#include ")
		if !ok {
			out.WriteString(line)
			continue
		}
		if has, once := l.once[name]; once && has {
			continue
		} else if once {
			l.once[name] = true
		}
		l.expand(out, l.fragment(name))
	}
}

// fragment returns the text of a file up to its first section, or of one section.
func (l *loader) fragment(name string) string {
	if text, ok := l.replaced[name]; ok {
		return text + "\n"
	}
	if name == "constants" {
		return constantsHere
	}
	text, ok := l.fragments()[name]
	if !ok && l.err == nil {
		l.err = fmt.Errorf("script: there is no fragment %s", name)
	}
	return text
}

// readFragments returns the texts of all files up to their first section, and of their sections.
func readFragments() map[string]string {
	all := make(map[string]string)
	entries, _ := files.ReadDir(".") // files is part of the program, so it cannot fail
	for _, e := range entries {
		text, _ := files.ReadFile(e.Name())
		file := strings.TrimSuffix(e.Name(), ".lua")
		for i, section := range strings.Split(string(text), sectionStart) {
			if i == 0 {
				all[file] = section
				continue
			}
			part, body, _ := strings.Cut(section, "\n")
			all[file+"."+part] = body
		}
	}
	return all
}

// sectionStart separates the sections of a file.
const sectionStart = "\n--#section "

// Keys are the keys of one resource, in the order of every script's KEYS. They are converted to
// arguments once, not for each call.
type Keys struct {
	core string
	args [2]any
}

// KeysOf returns the keys of the resource with that core. Both have its hash tag.
func KeysOf(core []byte) Keys {
	line := string(append(core, ":line"...))
	name := line[:len(core)] // both share one string
	return Keys{name, [2]any{name, line}}
}

// Core returns the first of the keys.
func (k Keys) Core() string { return k.core }

// Call is one run of a script.
type Call struct {
	script *luaScript
	args   []any // EVALSHA and its arguments
	// full is the script for a store that is out of memory, if there is one.
	full *luaScript
}

// coreArg and firstArg are the indexes of the core, and of the first argument after the keys.
const (
	coreArg  = 3
	firstArg = 5
)

// call makes a call. It reserves no room for further arguments, since few calls have some.
func (s *luaScript) call(k Keys, args ...any) Call {
	all := make([]any, 0, firstArg+len(args))
	all = append(all, "evalsha", s.sha(), len(k.args), k.args[0], k.args[1])
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

// Text returns the command that runs the script by its text, after the answer NOSCRIPT. Redis then
// keeps the script.
func (c Call) Text() []any {
	args := append([]any(nil), c.args...)
	args[0], args[1] = "eval", c.script.text()
	return args
}

// WhenFull returns the call to make after the answer OOM, if there is one: renewals and releases
// must not fail because Redis is out of memory.
func (c Call) WhenFull() (Call, bool) {
	if c.full == nil {
		return Call{}, false
	}
	full := Call{script: c.full, args: append([]any(nil), c.args...)}
	full.args[1] = c.full.sha()
	return full, true
}
