package ledger

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// epoch is the least score of a lease in a line (docs/PROTOCOL.md).
const epoch = 1e12

// Add notes a command that a server executed at an instant of its clock, as MONITOR reports it.
func (l *Ledger) Add(at time.Time, args ...string) { l.add(wall(at), args) }

// add interprets a command that the server executed at an instant of its clock.
func (l *Ledger) add(clock time.Duration, args []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.shown(clock)
	l.last = max(l.last, at)
	l.note(fmt.Sprintf("%v %q", at, args))
	if len(args) < 2 {
		return
	}
	switch strings.ToUpper(args[0]) {
	case "HSET":
		if name, line, ok := l.resource(args[1]); ok && !line {
			l.core(name, at, args[2:])
		}
	case "ZADD":
		if name, line, ok := l.resource(args[1]); ok && line {
			l.entries(name, at, args[2:])
		}
	case "ZREM":
		if name, line, ok := l.resource(args[1]); ok && line {
			for _, member := range args[2:] {
				if holder, ok := strings.CutPrefix(member, "h"); ok {
					l.end(id{name, holder}, instant(at))
				}
			}
		}
	case "PUBLISH", "SPUBLISH":
		if len(args) == 3 && strings.HasPrefix(args[1], l.prefix+":") && strings.HasPrefix(args[2], "w ") {
			l.recalls++
		}
	case "DEL", "UNLINK":
		for _, key := range args[1:] {
			if name, _, ok := l.resource(key); ok {
				l.endAll(name, at)
			}
		}
	}
}

// unescape decodes a resource's name in a key.
var unescape = strings.NewReplacer("%7B", "{", "%7D", "}", "%25", "%")

// resource returns the resource of a key, and whether the key is its line.
func (l *Ledger) resource(key string) (name string, line, ok bool) {
	rest, ok := strings.CutPrefix(key, l.prefix+":{")
	if !ok {
		return "", false, false
	}
	rest, line = strings.CutSuffix(rest, ":line")
	name, ok = strings.CutSuffix(rest, "}")
	return unescape.Replace(name), line, ok
}

// core stores fields of a core. With a capacity of 1 they say who holds the resource until when.
func (l *Ledger) core(name string, at time.Duration, fields []string) {
	core := l.cores[name]
	if core == nil {
		core = map[string]string{}
		l.cores[name] = core
	}
	before, moved, note := core["holder"], false, ""
	for i := 0; i+1 < len(fields); i += 2 {
		switch fields[i] {
		case "deadline", "holder":
			core[fields[i]], moved = fields[i+1], true
		case "token":
			core[fields[i]] = fields[i+1]
		case "note":
			note = fields[i+1]
		}
	}
	if !moved {
		return
	}
	deadline, held := l.score(core["deadline"])
	if before != "" && (before != core["holder"] || !held) {
		l.end(id{name, before}, instant(at))
	}
	if held && core["holder"] != "" {
		l.set(id{name, core["holder"]}, instant(at), deadline)
		l.grant(name, core["holder"], core["token"], note)
	}
}

// entries adds entries of a line: leases of a capacity above 1 among others.
func (l *Ledger) entries(name string, at time.Duration, args []string) {
	for len(args) > 0 && strings.Trim(args[0], "NXGTLCH") == "" { // options
		args = args[1:]
	}
	for i := 0; i+1 < len(args); i += 2 {
		if waiter, ok := strings.CutPrefix(args[i+1], "q"); ok {
			l.name(id{name, waiter}, at)
		}
		holder, ok := strings.CutPrefix(args[i+1], "h")
		if !ok {
			continue
		}
		if deadline, ok := l.score(args[i]); ok {
			l.set(id{name, holder}, instant(at), deadline)
		}
	}
}

// score reads a time of the server's clock in microseconds. 0 and a text, such as a kind, are none.
func (l *Ledger) score(text string) (time.Duration, bool) {
	micros, err := strconv.ParseFloat(text, 64)
	if err != nil || micros < epoch {
		return 0, false
	}
	return l.shown(time.Duration(micros) * time.Microsecond), true
}

// endAll notes that a key of a resource was deleted: all its leases are gone.
func (l *Ledger) endAll(name string, at time.Duration) {
	for of := range l.leases {
		if of.resource == name {
			l.end(of, instant(at))
		}
	}
	delete(l.cores, name)
}
