package script

import (
	"fmt"
	"strconv"
	"time"
)

// Acquire is the arguments of the script.
type Acquire struct {
	ID       string
	Kind     string
	Capacity int
	Weight   int
	TTL      time.Duration
	Reserve  uint64
	Ballot   uint64
	Queue    bool
	Turn     string
	Place    uint64
	Reason   string
	Yields   string
	Mark     time.Duration
	Look     bool // the client may not listen: the script looks, if the request waits
}

// maxExact is the limit up to which Lua's numbers are exact.
const maxExact = 1 << 53

// Status is the outcome of Acquire.
type Status int

// The statuses, as the script numbers them.
const (
	Granted Status = iota + 1
	Queued
	Busy
	Outbid
	Ended
	Mismatch
	TooHeavy
	TooFar
	Marked
)

// Acquired is the reply of Acquire; which fields are set depends on Status.
type Acquired struct {
	Status   Status
	Token    uint64
	TTL      time.Duration
	Position int
	Next     time.Duration
	Waiters  int
	Holder   Holder
	Last     uint64
	Ended    Refusal
}

// Acquire makes the call.
func (s *Set) Acquire(k Keys, a Acquire) Call {
	ttl := a.TTL.Microseconds()
	ballot := min(a.Ballot, maxExact) // any of these is too far ahead
	if a.Capacity > 1 {
		return s.sharedAcquire(k, a, ballot)
	}
	c := s.acquire.call(k, a.ID, kindArg(a.Kind, a.Capacity), ttl, a.Reserve, note(a.Reserve, a.Reason))
	queue := a.queue()
	// The script takes its fast paths only without the further arguments. They require that
	// the reserve ends before the lease does.
	switch {
	case a.Mark > 0:
		c.add(queue, a.Weight, ballot, a.Yields, a.Mark.Microseconds())
	case a.Weight != 1 || a.Ballot != 0 || a.Yields != "" || a.Reserve > uint64(ttl):
		c.add(queue, a.Weight, ballot, a.Yields)
	case queue != "q":
		c.add(queue)
	}
	return c
}

// sharedAcquire makes the call for a capacity above 1.
func (s *Set) sharedAcquire(k Keys, a Acquire, ballot uint64) Call {
	c := s.acquireShared.call(k, a.ID, kindArg(a.Kind, a.Capacity), a.TTL.Microseconds(), a.Reserve,
		a.Reason, a.Weight, a.Capacity)
	queue := a.queue()
	// As above, the script takes its fast paths only without the further arguments.
	switch {
	case a.Mark > 0 || a.Ballot != 0 || a.Yields != "" || a.Reserve > uint64(a.TTL.Microseconds()):
		c.add(queue, ballot, a.Yields, a.Mark.Microseconds())
	case !a.Queue:
		c.add(queue)
	}
	return c
}

// queue returns the argument that says whether to wait, and at which place.
func (a Acquire) queue() string {
	switch {
	case a.Ballot == 0 && a.Queue && a.Look && a.Capacity == 1:
		return "l"
	case a.Ballot == 0 && a.Queue:
		return "q"
	case a.Ballot == 0 || a.Place == 0:
		return ""
	}
	place := strconv.FormatUint(min(a.Place, maxExact), 10)
	if a.Queue && a.Turn != "" {
		place += " " + a.Turn
	}
	return place
}

// kindArg returns the kind and capacity of a resource as one argument. The usual ones are
// constants, which are not allocated.
func kindArg(kind string, capacity int) any {
	if capacity == 1 {
		switch kind {
		case "mutex":
			return "mutex:1"
		case "election":
			return "election:1"
		case "job":
			return "job:1"
		case "latch":
			return "latch:1"
		}
	}
	return kind + ":" + strconv.Itoa(capacity)
}

// note returns what the store keeps of a lease of capacity 1.
func note(reserve uint64, reason string) any {
	if reason == "" {
		switch reserve { // those that the client uses
		case 0:
			return "0 0 "
		case 16:
			return "16 0 "
		case 64:
			return "64 0 "
		}
	}
	return strconv.FormatUint(reserve, 10) + " 0 " + reason
}

// Read reads the reply.
func (a Acquire) Read(reply any) (Acquired, error) {
	if token, ok := reply.(int64); ok {
		return Acquired{Status: Granted, Token: uint64(token), TTL: micros(a.TTL.Microseconds())}, nil
	}
	r := readReply(reply)
	got := Acquired{Status: Status(r.number())}
	switch got.Status {
	case Granted:
		got.Token, got.TTL = r.token(), r.duration()
		if len(r.rest) > 0 {
			got.Last = r.token()
		}
	case Queued:
		got.Position, got.Next, got.Last = int(r.number()), r.duration(), r.token()
	case Busy:
		got.Next, got.Waiters, got.Last, got.Position = r.duration(), int(r.number()), r.token(), int(r.number())
		if len(r.rest) > 0 {
			id, ttl, info := r.text(), r.duration(), r.text()
			got.Holder = holder(a.Capacity, got.Last, id, info, ttl)
		}
	case Outbid:
		got.Last, got.Next = r.token(), r.duration()
	case Ended:
		got.Ended.Cause = int(r.number())
		if len(r.rest) > 0 {
			got.Ended.Reason = r.text()
		}
	case Marked:
		got.Next = r.duration()
	case Mismatch, TooHeavy, TooFar:
	default:
		r.fail(fmt.Sprintf("status %d", got.Status))
	}
	return got, r.err
}
