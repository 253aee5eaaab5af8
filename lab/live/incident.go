package live

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/fault"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/workload"
)

// incident is a time in which something may have kept a client from its store: a fault, or a
// stall of the machine. Only an incident explains that a lease was lost or that the store
// was unavailable.
type incident struct {
	kind     fault.Kind
	client   string // empty: every client
	from, to time.Duration
}

// covers reports whether the incident hit a client at an instant.
func (i incident) covers(client string, at time.Duration) bool {
	return (i.client == "" || i.client == client) && i.from <= at && at <= i.to
}

const endless = time.Duration(1<<63 - 1)

// recovery is how long a stopped worker may need after it continues, besides a TTL: its
// clients dial again what was closed meanwhile.
const recovery = time.Second

// incidents returns those of the faults that happened. Breaks are not among them: an operator
// ends one lease, see operator.broke. A fault of a store or a connection counts to the end of
// the run, since reconnecting takes different times.
func (r *run) incidents() (all []incident) {
	for _, h := range r.inj.Hits() {
		i := incident{kind: h.Fault.Kind, client: bearer(h.Fault.Target), from: r.began + h.At, to: endless}
		if h.At > runLimit { // a worker was at the point before the start
			i.from = 0
		}
		switch h.Fault.Kind {
		case fault.Break, fault.ForceBreak, fault.Copy:
			continue
		case fault.Pause, fault.Exhaust:
			i.to = i.from + h.Fault.For + r.p.TTL + recovery
		}
		if _, store := r.live.Stores[i.client]; store {
			i.client = ""
			i.to = endless
		}
		all = append(all, i)
	}
	for _, p := range r.roles.promotions() { // the machine may have been so slow that nobody had to kill the master
		all = append(all, incident{kind: fault.Failover, from: p.from, to: endless})
	}
	return all
}

// StallKind is what stood still.
type StallKind string

const (
	whole  StallKind = ""       // a worker, or a store for the lab
	trip   StallKind = "trip"   // only one connection of a worker
	thread StallKind = "thread" // only one thread of a worker
)

// Stall is a time in which a worker did not run, or a store did not respond, because the machine was busy.
type Stall struct {
	Client string        `json:"client,omitempty"` // empty: a store
	Kind   StallKind     `json:"kind,omitempty"`
	From   time.Duration `json:"from"`
	To     time.Duration `json:"to"`
}

// enough returns how much of one TTL has to be stalled to explain the loss of a lease. There
// is time for a renewal from a third of the TTL to the end of the window, and then a part of
// it for the first retry.
func enough(ttl time.Duration) time.Duration {
	window := ttl - ttl/50 - 20*time.Millisecond
	return max(8*time.Millisecond, (window-ttl/3)/4)
}

// stalledFor returns how long a client or its store was stalled between two instants: by threads or by all else, whichever is longer,
// since a stall of the whole client is one of its threads too. Stalls at the same time count once.
func stalledFor(all []Stall, client string, from, to time.Duration) time.Duration {
	threads := slices.DeleteFunc(slices.Clone(all), func(s Stall) bool { return s.Kind != thread })
	others := slices.DeleteFunc(slices.Clone(all), func(s Stall) bool { return s.Kind == thread })
	return max(covered(threads, client, from, to), covered(others, client, from, to))
}

// covered returns how long there was one of some stalls of a client or its store.
func covered(all []Stall, client string, from, to time.Duration) (sum time.Duration) {
	all = slices.DeleteFunc(slices.Clone(all), func(s Stall) bool { return s.Client != "" && s.Client != client })
	slices.SortFunc(all, func(a, b Stall) int { return cmp.Compare(a.From, b.From) })
	for _, s := range all {
		from = max(from, s.From)
		if end := min(s.To, to); end > from {
			sum += end - from
			from = end
		}
	}
	return sum
}

// between returns the stalls that a time between two instants has a part of.
func between(all []Stall, from, to time.Duration) (some []Stall) {
	for _, s := range all {
		if s.From <= to && s.To >= from {
			some = append(some, s)
		}
	}
	return some
}

// longestStall returns the longest of some stalls.
func longestStall(all []Stall) (longest time.Duration) {
	for _, s := range all {
		longest = max(longest, s.To-s.From)
	}
	return longest
}

// explained reports whether a fault or a stall explains that a client had trouble with its
// store in a time that ended at an instant. It counts those that only a stall explains.
func (r *run) explained(client string, from, at time.Duration) bool {
	if slices.ContainsFunc(r.incidents(), func(i incident) bool {
		return i.covers(client, at) || i.covers(client, from) || i.from >= from && i.from <= at && i.covers(client, i.from)
	}) {
		return true
	}
	if stalledFor(r.stalls(), client, min(from, at-r.p.TTL), at) < enough(r.p.TTL) {
		return false
	}
	r.byStall++
	return true
}

// kept returns a violation for each lease that was lost without a reason. Leases that are not
// renewed end by themselves.
func (r *run) kept(ops []history.Op) []check.Violation {
	multiOf := func(holder string) string { // of the parts of a Multi, which end together
		first, _, _ := strings.Cut(holder, workload.Parts)
		return first
	}
	acquired := map[string][]history.Op{}
	for _, op := range ops {
		if op.Kind == history.Acquire && op.Outcome == history.OK {
			acquired[multiOf(op.Holder)] = append(acquired[multiOf(op.Holder)], op)
		}
	}
	return check.Kept().Find(slices.DeleteFunc(slices.Clone(ops), func(op history.Op) bool {
		if op.Kind != history.Lost {
			return false
		}
		broke := slices.ContainsFunc(acquired[multiOf(op.Holder)], func(part history.Op) bool { return r.ops.broke(part, op.Call) })
		return broke || r.explained(op.Client, op.Call-r.p.TTL, op.Call)
	}))
}

// excuse is an error that only a fault or a stall explains.
type excuse struct {
	client, resource, text string
	from, at               time.Duration
}

// unexplained returns a violation for each error without a fault or a stall that explains it.
func (r *run) unexplained() (out []check.Violation) {
	r.mu.Lock()
	all := slices.Clone(r.excuses)
	r.mu.Unlock()
	for _, e := range all {
		if !r.ops.brokeOf(e.client, e.resource, e.at) && !r.explained(e.client, e.from, e.at) {
			out = append(out, check.Violation{Check: "errors", Resource: e.resource, At: e.at,
				Text: fmt.Sprintf("%s got, without a fault that explains it: %s", e.client, e.text)})
		}
	}
	return out
}

// stalls returns the stalls that were measured so far.
func (r *run) stalls() []Stall {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.stalled)
}
