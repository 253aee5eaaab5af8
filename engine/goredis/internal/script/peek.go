package script

import (
	"cmp"
	"time"
)

// Peek is the arguments of the script.
type Peek struct {
	Most  int    // holders of a condition to look at
	After string // More of the reply before, to continue there; or ""
}

// Brief is the reply of Peek.
type Brief struct {
	Kind     string
	Capacity int
	Last     uint64
	Marked   time.Duration // the rest of the mark; 0 if there is none
	Holders  []Holder
	Waiting  int
	More     string // not "" if there may be more holders
}

// Peek makes the call.
func (s *Set) Peek(k Keys, a Peek) Call {
	c := s.peek.call(k, a.Most)
	if a.After != "" {
		c.add(a.After)
	}
	return c
}

// Read reads the reply.
func (a Peek) Read(reply any) (Brief, error) {
	r := readReply(reply)
	now := r.number()
	var b Brief
	b.Kind, b.Capacity = kind(r.text())
	b.Last = r.token()
	holders := r.list()
	b.Marked = micros(max(0, r.number()-now))
	b.Waiting = int(r.number())
	b.More = r.text()
	b.Holders = holders.holders(now, b.Capacity, b.Last)
	return b, cmp.Or(r.err, holders.err)
}
