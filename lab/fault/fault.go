// Package fault injects faults into clients, servers and the connections between them.
// A fault is a value: it is printed as one line, parsed from it, and injected again by an
// Injector.
//
//	pause a at a:release.get until b:held
//	kill a at a:acquire.setnx
//	blackhole a-node3 at start until b:held
//	lose-reply a-node1 match stock at a:acquire.start
//	delay b-node1 by 40ms at 1.2s for 300ms
//	step-clock a by -10s at a:acquire.node1#2
//	restart-empty node2 at a:held
//	copy node1 at 300ms
//	roll-back node1 at 700ms
//	force-break stock at 300ms
//	hold-back node1 at 300ms for 2s
//	slow-disk node1 by 200ms at 300ms for 2s
//	exhaust a at 300ms for 2s
//
// A fault has a beginning: a point, which is a named moment in the life of a client
// (`a:release.get`, by default the first time it is reached), or a time since the start.
// The Injector records whether it happened: a run in which a fault was never hit proves
// nothing.
package fault

import (
	"fmt"
	"strings"
	"time"
)

// Kind is the kind of a fault.
type Kind string

// The kinds of fault. A kind that "ends" lasts until Until or for For; without either,
// until the end of the run. Targets are a client ("a"), a server ("node1"), the
// connections of a client to a server ("a-node1"), or a resource.
const (
	Kill         Kind = "kill"          // SIGKILL to a client or a server
	Pause        Kind = "pause"         // SIGSTOP to a client or a server; ends with SIGCONT
	Stall        Kind = "stall"         // blocks the operation at the point; the rest of its client continues
	Restart      Kind = "restart"       // kills a server and starts it with its data on disk
	RestartEmpty Kind = "restart-empty" // kills a server and starts it without data
	Copy         Kind = "copy"          // copies the data that a server has on disk, while it runs
	RollBack     Kind = "roll-back"     // kills a server and starts it with its latest copy: what it wrote since is lost
	Failover     Kind = "failover"      // kills a master and promotes its replica
	Promote      Kind = "promote"       // promotes the replica of a master that lives
	HoldBack     Kind = "hold-back"     // stops the replication from a master; ends
	SlowDisk     Kind = "slow-disk"     // a server writes each command to its disk before it replies, which takes By; ends
	Delay        Kind = "delay"         // delays bytes by By; ends
	Cut          Kind = "cut"           // closes the connections at once and refuses new ones; ends
	Blackhole    Kind = "blackhole"     // holds all bytes in both directions; ends, and then they arrive
	Deafen       Kind = "deafen"        // holds the bytes to the client only; ends, and then they arrive
	Mute         Kind = "mute"          // holds the bytes to the server only; ends, and then they arrive
	LoseReply    Kind = "lose-reply"    // cuts one connection in place of the reply to the next command that contains Match
	StepClock    Kind = "step-clock"    // sets a client's wall clock forward by By
	Exhaust      Kind = "exhaust"       // takes all connections of a client's pools; ends, and then they are free
	Break        Kind = "break"         // an operator breaks a lease of a resource: its holder has to release it
	ForceBreak   Kind = "force-break"   // an operator ends a lease of a resource at once
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{Kill, Pause, Stall, Restart, RestartEmpty, Copy, RollBack, Failover, Promote, HoldBack, SlowDisk, Delay, Cut, Blackhole, Deafen, Mute,
		LoseReply, StepClock, Exhaust, Break, ForceBreak}
}

// Fault is one fault of a schedule.
type Fault struct {
	Kind   Kind
	Target string
	By     time.Duration // of SlowDisk, Delay and StepClock; else 0
	Match  string        // of LoseReply; else empty
	At     When
	Until  When          // the zero When: see For
	For    time.Duration // 0: see Until
}

// When is a moment: a point of a client, or a time since the start.
type When struct {
	Who, Point string
	Nth        int           // of the visits of the point, from 1
	After      time.Duration // if Who is empty
}

// At is the first time that a client reaches a point.
func At(who, point string) When { return When{Who: who, Point: point, Nth: 1} }

// After is a time since the start.
func After(d time.Duration) When { return When{After: d} }

// String formats a fault for Parse.
func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", f.Kind, f.Target)
	if f.By != 0 {
		fmt.Fprintf(&b, " by %v", f.By)
	}
	if f.Match != "" {
		fmt.Fprintf(&b, " match %s", f.Match)
	}
	fmt.Fprintf(&b, " at %v", f.At)
	if f.Until != (When{}) {
		fmt.Fprintf(&b, " until %v", f.Until)
	}
	if f.For != 0 {
		fmt.Fprintf(&b, " for %v", f.For)
	}
	return b.String()
}

// String formats a moment: start, 1.2s, a:held or a:held#2.
func (w When) String() string {
	switch {
	case w.Who == "" && w.After == 0:
		return "start"
	case w.Who == "":
		return w.After.String()
	case w.Nth > 1:
		return fmt.Sprintf("%s:%s#%d", w.Who, w.Point, w.Nth)
	}
	return w.Who + ":" + w.Point
}

// Schedule is the faults of one run, in the order in which they were written.
type Schedule []Fault

// String formats one fault a line.
func (s Schedule) String() string {
	var b strings.Builder
	for _, f := range s {
		fmt.Fprintln(&b, f)
	}
	return b.String()
}
