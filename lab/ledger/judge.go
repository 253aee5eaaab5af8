package ledger

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// Check is the name of the violations.
const Check = "ledger"

// clockSlack is what two readings of the machine's clocks may differ by. It is less than a round trip of a busy machine,
// so that a window that counts from the reply is found.
const clockSlack = 200 * time.Microsecond

// slackOf is what a reading of the machine's clock and one of a node may differ by.
func slackOf(nodes []*Ledger) time.Duration {
	most := time.Duration(0)
	for _, l := range nodes {
		most = max(most, l.clock().Error())
	}
	return clockSlack + most
}

// Margin is what a trust window ends before the deadline in the store, as docs/GUARANTEES.md promises.
func Margin(ttl time.Duration) time.Duration { return 20*time.Millisecond + ttl/50 }

// window is what a client claims: from at on, it relies on its lease until until, or until it says that it no longer
// does.
type window struct {
	op   history.Op
	ends time.Duration // the client no longer relies on it
}

// Judge compares the trust windows of a history with what the nodes did: one store, or the Redis servers of a quorum, of
// which a majority has to agree. It returns how many windows it compared; it does not count those that a Ledger did not
// see, or of which it knows the time no better than the margin is long. The leases are those whose Acquire has a Store;
// all have the TTL.
func Judge(ops []history.Op, ttl time.Duration, nodes []*Ledger) (judged int, found []check.Violation) {
	for _, l := range nodes {
		l.mu.Lock()
		defer l.mu.Unlock()
	}
	margin, slack := Margin(ttl)-drift(ttl, nodes), slackOf(nodes)
	for _, w := range windows(ops) {
		text, seen := w.judge(ttl, margin, slack, nodes)
		if !seen {
			continue
		}
		judged++
		if text != "" {
			found = append(found, check.Violation{Check: Check, Resource: w.op.Resource, At: w.op.Return, Text: text})
		}
	}
	for _, l := range nodes {
		found = append(found, l.wrong...)
	}
	return judged, found
}

// drift is by how much a lease of the TTL may end too early by the clocks of the nodes. The margin is for this.
func drift(ttl time.Duration, nodes []*Ledger) (most time.Duration) {
	for _, l := range nodes {
		most = max(most, time.Duration(float64(ttl)*l.clock().Gain()))
	}
	return most
}

// windows returns what the clients claim.
func windows(ops []history.Op) (all []window) {
	type key struct{ resource, holder string }
	store, begun, ends := map[key]string{}, map[key]time.Duration{}, map[key]time.Duration{}
	for _, op := range ops {
		of := key{op.Resource, op.Holder}
		switch op.Kind {
		case history.Acquire:
			if op.Outcome == history.OK && op.Store != "" {
				store[of], begun[of] = op.Store, op.Call
			}
		case history.Release, history.Leave, history.Lost:
			if at, ok := ends[of]; !ok || op.Call < at {
				ends[of] = op.Call
			}
		}
	}
	for _, op := range ops {
		of := key{op.Resource, op.Holder}
		if store[of] == "" || op.Until == 0 || op.Until <= op.Return {
			continue
		}
		switch op.Kind {
		case history.Acquire, history.Renew, history.Enter:
			w := window{op: op, ends: op.Until}
			if at, ok := ends[of]; ok {
				w.ends = min(w.ends, at)
			}
			if w.ends <= op.Return { // it was broken by force, or lost
				continue
			}
			w.op.Store, w.op.Call = store[of], begun[of]
			all = append(all, w)
		}
	}
	return all
}

// judge reports what contradicts the window, and whether enough was seen to judge it.
func (w window) judge(ttl, margin, slack time.Duration, nodes []*Ledger) (text string, seen bool) {
	var leases []lease // on the nodes that were seen
	for _, l := range nodes {
		if !l.unseen(w.op.Call, w.ends) {
			leases = append(leases, l.of(w.op.Resource, w.op.Store))
		}
	}
	count := func(holds func(lease) bool) (n int) {
		for _, l := range leases {
			if holds(l) {
				n++
			}
		}
		return n
	}
	at, majority := w.op.Return, len(nodes)/2+1
	need := majority - (len(nodes) - len(leases)) // the nodes that were not seen may agree
	describe := fmt.Sprintf("%s relies on lease %s of token %d until %v", w.op.Client, w.op.Store, w.op.Token, w.op.Until)
	if granted := count(func(l lease) bool { return l.grantedBy(at + slack) }); granted < need {
		return fmt.Sprintf("%s, which %d of %d nodes have granted", describe, granted, len(nodes)), true
	}
	if text := w.foreign(nodes[0]); text != "" {
		return fmt.Sprintf("%s, %s", describe, text), true
	}
	backing := count(func(l lease) bool {
		deadline := l.deadlineIn(at-slack+clockSlack, at+slack)
		// A waiter that is granted by a wake-up counts what was left when it asked last, and the margin of that: at least what is left now.
		counted := min(ttl, max(0, deadline-at))
		return deadline >= w.op.Until+margin-(ttl-counted)/50-slack
	})
	if backing < need {
		return fmt.Sprintf("%s, less than %v before the deadlines that were stored at %v: %d of %d nodes hold it for so long; they have %v", describe, margin, at, backing, len(nodes), leases), true
	}
	for _, l := range leases {
		for _, then := range l.endsIn(at+slack, w.ends-slack) {
			if held := count(func(l lease) bool { return l.deadlineIn(then, then) >= w.ends-slack }); held < need {
				return fmt.Sprintf("%s, and it ended in the store at %v, %v before the client stopped", describe, then, w.ends-then), true
			}
		}
	}
	sharp := count(func(l lease) bool { return !l.vague(at, at+slack, margin) })
	return "", sharp == len(leases) && (len(leases) == len(nodes) || backing >= majority)
}

// foreign reports that the token that the client states is not one of its lease, if the ledger has tokens: a lease has those
// from its own to that of the next lease, with which it is handed off in its process.
func (w window) foreign(l *Ledger) string {
	r := l.resources[w.op.Resource]
	if r == nil {
		return ""
	}
	i := slices.IndexFunc(r.grants, func(g grant) bool { return g.holder == w.op.Store })
	switch {
	case i < 0:
	case w.op.Token < r.grants[i].token:
		return fmt.Sprintf("whose tokens begin with %d in the store", r.grants[i].token)
	case i+1 < len(r.grants) && w.op.Token >= r.grants[i+1].token:
		return fmt.Sprintf("and %d in the store is the token of %s, a later lease", r.grants[i+1].token, r.grants[i+1].holder)
	}
	return ""
}

// unseen reports whether the ledger misses a part of a time.
func (l *Ledger) unseen(from, to time.Duration) bool {
	return slices.ContainsFunc(l.blind, func(b span) bool { return b.from <= to && from <= b.to })
}

// breaking is what a break puts before the ID of a lease that its holder has to release. ballot follows the ID of a
// quorum's lease in the IDs of its ballots on the nodes.
const breaking, ballot = "!", "~"

// lease is what one node did with a lease: the changes under each of its IDs. A break changes the ID, and each ballot of
// a quorum has one of its own.
type lease [][]change

func (l *Ledger) of(resource, store string) (all lease) {
	for of, changes := range l.leases {
		name := strings.TrimPrefix(of.holder, breaking)
		if of.resource == resource && (name == store || strings.HasPrefix(name, store+ballot)) {
			all = append(all, changes)
		}
	}
	return all
}

// grantedBy reports whether it may have been granted until an instant.
func (l lease) grantedBy(at time.Duration) bool {
	return slices.ContainsFunc(l, func(c []change) bool { return c[0].made.from <= at })
}

// inForce returns the changes that may have been in force at an instant between two others, inclusive.
func (l lease) inForce(from, to time.Duration) (all []change) {
	for _, changes := range l {
		for i, c := range changes {
			replaced := i+1 < len(changes) && changes[i+1].made.to <= from
			if c.made.from <= to && !replaced {
				all = append(all, c)
			}
		}
	}
	return all
}

// deadlineIn returns the latest deadline that may have been in force at an instant between two others: never if there
// was none.
func (l lease) deadlineIn(from, to time.Duration) time.Duration {
	latest := never
	for _, c := range l.inForce(from, to) {
		latest = max(latest, c.deadline)
	}
	return latest
}

// vague reports whether the time of a change that may have been in force is not known within a margin.
func (l lease) vague(from, to, margin time.Duration) bool {
	return slices.ContainsFunc(l.inForce(from, to), func(c change) bool { return c.made.to-c.made.from >= margin })
}

// endsIn returns the instants between two others at which an ID of it had ended.
func (l lease) endsIn(from, to time.Duration) (all []time.Duration) {
	for _, c := range slices.Concat(l...) {
		if c.deadline == never && c.made.to > from && c.made.to < to {
			all = append(all, c.made.to)
		}
	}
	return all
}
