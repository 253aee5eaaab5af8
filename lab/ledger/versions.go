package ledger

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
)

// version is the document of a resource, from one change of it to the next.
type version struct {
	resource string
	// made is when the store made it: at an instant of that time. Where the store's clock was read in the change, it was
	// committed after it.
	made span
	// counted is from when clients count the TTL of what was renewed with it, if the store has no clock.
	counted span
	value   []byte // nil: it was deleted
}

// tracked is what a Ledger knows of a resource that is a document.
type tracked struct {
	leases  map[string]present // by holder
	grants  []grant            // in their order
	highest uint64             // token that was given or reserved
}

// present is a lease that has not ended. Its time is over at the deadline at the latest, and not before least.
type present struct {
	token, stamp    uint64
	deadline, least time.Duration
}

// grant is one lease with its token.
type grant struct {
	holder string
	token  uint64
}

// apply notes what the next version of a document says of the leases.
func (l *Ledger) apply(v version) {
	l.last = max(l.last, v.made.to)
	r := l.resources[v.resource]
	if r == nil {
		r = &tracked{leases: map[string]present{}}
		l.resources[v.resource] = r
	}
	d, err := readDocument(v.value)
	if err != nil {
		l.complain(v, "the document made at %v cannot be read: %v", v.made, err)
		return
	}
	l.note(d.describe(v))
	now := map[string]present{}
	for _, h := range d.leases {
		before, held := r.leases[h.holder]
		is := l.stored(v, d, h)
		if held && d.stamped && h.stamp == before.stamp {
			is.deadline, is.least = before.deadline, before.least
		}
		now[h.holder] = is
		if !held {
			l.granted(v, r, h)
		} else if h.token != before.token {
			l.complain(v, "lease %s of token %d has token %d at %v", h.holder, before.token, h.token, v.made)
		}
		if !held || is.deadline != before.deadline {
			l.set(id{v.resource, h.holder}, v.made, is.deadline)
		}
	}
	for holder, before := range r.leases {
		if _, held := now[holder]; held {
			continue
		}
		l.end(id{v.resource, holder}, v.made)
		if d.expired[holder] && v.made.to < before.least-clockSlack {
			l.complain(v, "lease %s of token %d expired in the store at %v, %v before its time was over", holder, before.token, v.made, before.least-v.made.to)
		}
	}
	r.leases, r.highest = now, max(r.highest, d.last)
}

// stored returns a lease of a document as it counts.
func (l *Ledger) stored(v version, d document, h documentLease) present {
	if d.stamped {
		return present{h.token, h.stamp, v.counted.to + h.deadline, v.counted.from + h.deadline}
	}
	return present{h.token, 0, h.deadline - l.start, h.deadline - l.start}
}

// granted notes a new lease.
func (l *Ledger) granted(v version, r *tracked, h documentLease) {
	if h.token <= r.highest {
		l.complain(v, "lease %s got token %d at %v, and %d was given or reserved before", h.holder, h.token, v.made, r.highest)
	}
	r.highest = max(r.highest, h.token)
	r.grants = append(r.grants, grant{h.holder, h.token})
}

// complain notes a violation that the documents show.
func (l *Ledger) complain(v version, format string, args ...any) {
	l.wrong = append(l.wrong, check.Violation{Check: Check, Resource: v.resource, At: v.made.to, Text: fmt.Sprintf(format, args...)})
}

// describe returns a version as text.
func (d document) describe(v version) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %q", v.made, v.resource)
	if v.value == nil {
		b.WriteString(" deleted")
	}
	if v.counted != v.made {
		fmt.Fprintf(&b, " counted from %v", v.counted)
	}
	fmt.Fprintf(&b, " last %d", d.last)
	for _, h := range d.leases {
		fmt.Fprintf(&b, " [%s token %d", h.holder, h.token)
		if d.stamped {
			fmt.Fprintf(&b, " stamp %d TTL %v", h.stamp, h.deadline)
		} else {
			fmt.Fprintf(&b, " until %d", h.deadline.Microseconds())
		}
		if h.breaking {
			b.WriteString(" breaking")
		}
		b.WriteString("]")
	}
	for holder := range d.expired {
		fmt.Fprintf(&b, " expired %s", holder)
	}
	return b.String()
}
