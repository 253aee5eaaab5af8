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
	Reason   string
	Yields   string
	Mark     time.Duration
}

// maxExact is where Lua's numbers cease to be exact.
const maxExact = 1 << 53

// Status is how Acquire ended.
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
	Cause    int
}

// Acquire makes the call.
func (s *Set) Acquire(k Keys, a Acquire) Call {
	ttl := a.TTL.Microseconds()
	ballot := min(a.Ballot, maxExact) // any of these is too far ahead
	if a.Capacity > 1 {
		return s.sharedAcquire(k, a, ballot)
	}
	c := s.acquire.call(k, a.ID, a.Kind+":"+strconv.Itoa(a.Capacity), ttl, a.Reserve,
		strconv.FormatUint(a.Reserve, 10)+" 0 "+a.Reason)
	queue := ""
	if a.Queue {
		queue = "q"
	}
	// The script takes its short way only if the rest is left out. It counts
	// on the reserve ending before the lease does.
	switch {
	case a.Mark > 0:
		c.add(queue, a.Weight, ballot, a.Yields, a.Mark.Microseconds())
	case a.Weight != 1 || a.Ballot != 0 || a.Yields != "" || a.Reserve > uint64(ttl):
		c.add(queue, a.Weight, ballot, a.Yields)
	case !a.Queue:
		c.add(queue)
	}
	return c
}

// sharedAcquire makes the call for a capacity above 1.
func (s *Set) sharedAcquire(k Keys, a Acquire, ballot uint64) Call {
	c := s.share.call(k, a.ID, a.Kind+":"+strconv.Itoa(a.Capacity), a.TTL.Microseconds(), a.Reserve,
		a.Reason, a.Weight, a.Capacity)
	queue := ""
	if a.Queue {
		queue = "q"
	}
	// As above, the script takes its short way only if the rest is left out.
	switch {
	case a.Mark > 0 || a.Ballot != 0 || a.Yields != "" || a.Reserve > uint64(a.TTL.Microseconds()):
		c.add(queue, ballot, a.Yields, a.Mark.Microseconds())
	case !a.Queue:
		c.add(queue)
	}
	return c
}

// Read reads the reply.
func (a Acquire) Read(reply any) (Acquired, error) {
	if token, ok := reply.(int64); ok {
		return Acquired{Status: Granted, Token: uint64(token), TTL: micros(a.TTL.Microseconds())}, nil
	}
	r := read(reply)
	got := Acquired{Status: Status(r.number())}
	switch got.Status {
	case Granted:
		got.Token, got.TTL = r.token(), r.duration()
	case Queued:
		got.Position, got.Next = int(r.number()), r.duration()
	case Busy:
		got.Next, got.Waiters, got.Last = r.duration(), int(r.number()), r.token()
		if len(r.rest) > 0 {
			id, ttl, info := r.text(), r.duration(), r.text()
			got.Holder = holder(a.Capacity, got.Last, id, info, ttl)
		}
	case Outbid:
		got.Last, got.Next = r.token(), r.duration()
	case Ended:
		got.Cause = int(r.number())
	case Marked:
		got.Next = r.duration()
	case Mismatch, TooHeavy, TooFar:
	default:
		r.fail(fmt.Sprintf("status %d", got.Status))
	}
	return got, r.err
}
