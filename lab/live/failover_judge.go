package live

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/fault"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/ledger"
)

// A failover may promote a replica that has not received the latest grants and renewals. docs/GUARANTEES.md promises no
// exclusion for these leases from then on; tokens, fencing and all else stay promised, and a holder is notified
// when its renewals have found the new master. With confirmed replicas, and in a failover in good order, nothing may be missing.
//
// Which leases are concerned is read from what the servers did: the ledger of the promoted server has each write that it
// received from its old master, with the time.

// failovers is what the failovers of a run did to its leases.
type failovers struct {
	safe    bool // nothing may be missing
	carried int  // leases that were held, and that the promoted server had as their holders assumed
	lost    []uncovered
}

// uncovered is a use of a lease that a promoted server did not have as its holder assumed.
type uncovered struct {
	acquire history.Op
	by      promotion
	at      time.Duration // from then on the new master may grant it to others
	never   bool          // it never had the lease; else it missed a renewal
}

// askedBefore is how long a renewal asks for the master before it goes to the one that it went to before.
const askedBefore = 250 * time.Millisecond

// excused returns a release by wiper for each lease that is no longer promised to exclude others.
func (f failovers) excused() (out []history.Op) {
	if f.safe {
		return nil
	}
	for _, x := range f.lost {
		op := x.acquire
		op.Client, op.Kind, op.Call, op.Return, op.Until, op.Note = wiper, history.Release, x.at, x.at, 0, "lost by a failover"
		op.Return, op.Outcome = max(x.at, x.by.known)+askedBefore, history.OK
		if !x.never || x.by.known == 0 { // it may have been renewed in time
			op.Return, op.Outcome = x.at, history.Unknown
		}
		out = append(out, op)
	}
	return out
}

// violations returns one for each lease that must not be missing.
func (f failovers) violations() (out []check.Violation) {
	if !f.safe {
		return nil
	}
	for _, x := range f.lost {
		out = append(out, check.Violation{Check: "failover", Resource: x.acquire.Resource, At: x.by.at,
			Text: fmt.Sprintf("%s relied on lease %s of token %d, which node%d, promoted between %v and %v, does not have so: it may grant it to others from %v on",
				x.acquire.Client, x.acquire.Store, x.acquire.Token, x.by.node+1, x.by.from, x.by.at, x.at)})
	}
	return out
}

// orderly reports whether all failovers were those of masters that handed over in good order: of a cluster, by an operator.
func (r *run) orderly() bool {
	planned := 0
	for _, h := range r.inj.Hits() {
		if h.Fault.Kind == fault.Promote && r.p.store().Name == "cluster" {
			planned++
		}
	}
	return planned == len(r.roles.promotions())
}

// mayLose reports whether a failover may have lost what was written last.
func (r *run) mayLose() bool { return r.roles != nil && !r.p.store().Confirms && !r.orderly() }

// leaseKey identifies a lease of the store.
type leaseKey struct{ resource, store string }

// use is what a client did with a lease of the store: one of its callers held it.
type use struct {
	acquire history.Op
	ends    time.Duration   // it was released, left by a client that lived, or reported as lost; endless: never
	stated  []time.Duration // of when each window was stated, and its end, alternating
}

// relied returns until when the client relied on the lease by what it had stated until an instant.
func (u use) relied(at time.Duration) (until time.Duration) {
	for i := 0; i < len(u.stated); i += 2 {
		if u.stated[i] <= at {
			until = max(until, u.stated[i+1])
		}
	}
	return until
}

// usesOf returns the uses of each lease.
func usesOf(ops []history.Op) map[leaseKey][]*use {
	all, by := map[leaseKey][]*use{}, map[string]*use{}
	for _, op := range ops {
		if op.Kind == history.Acquire && op.Outcome == history.OK && op.Store != "" {
			u := &use{acquire: op, ends: endless, stated: []time.Duration{op.Return, op.Until}}
			by[op.Resource+" "+op.Holder] = u
			all[leaseKey{op.Resource, op.Store}] = append(all[leaseKey{op.Resource, op.Store}], u)
		}
	}
	for _, op := range ops {
		u := by[op.Resource+" "+op.Holder]
		if u == nil {
			continue
		}
		switch op.Kind {
		case history.Release, history.Leave, history.Lost:
			if op.Client == u.acquire.Client && op.Note != died { // others wait for the deadline of a dead client's lease
				u.ends = min(u.ends, op.Call)
			}
		case history.Renew:
			if op.Until != 0 {
				u.stated = append(u.stated, op.Call, op.Until)
			}
		}
	}
	return all
}

// overFailovers compares the leases that were held over each failover with what the promoted server had.
func (r *run) overFailovers(ops []history.Op) (f failovers) {
	f.safe = !r.mayLose()
	if len(r.roles.promotions()) == 0 {
		return f
	}
	for key, uses := range usesOf(ops) {
		all := r.roles.over(key.resource)
		for i, p := range all {
			until := endless // the reign of the next one
			if i+1 < len(all) {
				until = all[i+1].from
			}
			f.add(r, key, uses, p, until)
		}
	}
	return f
}

// add compares the uses of a lease with what a promoted server had. An ID may be granted again by the new master, which knows its request, so
// that a grant is known by the instant in its token.
func (f *failovers) add(r *run, key leaseKey, uses []*use, p promotion, until time.Duration) {
	ours := r.ledgers[p.node]
	for _, u := range uses {
		granted := r.grantedAt(u.acquire)
		if u.ends <= p.from || granted >= until {
			continue // over before, or of a later master
		}
		stored, has := ours.StoredSince(key.resource, key.store, granted-tick)
		deadline, seen := p.had[key]
		if seen && granted < p.at && (!has || stored > p.at) {
			stored, has = p.at, true
		}
		latest, by := time.Duration(-1), time.Duration(endless) // of any server
		for _, n := range r.roles.shards[key.resource] {
			if at, ok := r.ledgers[n].StoredSince(key.resource, key.store, granted-tick); ok {
				by = min(by, at)
			}
			latest = max(latest, r.ledgers[n].DeadlineAt(key.resource, key.store, p.from))
		}
		switch {
		case granted >= p.from:
			if by < endless && (!has || stored > max(by, p.at)) { // by the old master
				f.lose(u, p, granted, true)
			}
		case !has || stored > p.at:
			f.lose(u, p, p.from, true)
		case latest < 0:
			continue // ended by the old master
		default:
			// Until its client has found the new master, the old one may renew it.
			found := max(p.at, p.known) + askedBefore
			had := max(deadline, ours.LastDeadline(key.resource, key.store, found))
			if u.relied(found) > had-ledger.Margin(r.p.TTL)+tick {
				f.lose(u, p, max(p.from, had), false)
			} else if u.ends > p.at && u.relied(endless) > p.at {
				f.carried++
			}
		}
	}
}

// lose notes a use that is not covered from an instant on, if it lasts until then.
func (f *failovers) lose(u *use, by promotion, at time.Duration, never bool) {
	if u.relied(endless) > at && u.ends > at {
		f.lost = append(f.lost, uncovered{u.acquire, by, at, never})
	}
}

// tick is by how much two readings of the machine's clocks may differ.
const tick = time.Millisecond

// grantedAt returns when a Redis granted a lease: its token is the time in microseconds.
func (r *run) grantedAt(acquire history.Op) time.Duration {
	return r.rec.At(time.UnixMicro(int64(acquire.Token)))
}

// uncertain returns the operator's releases by force. One that a failover lost may have had no effect: the promoted server still had
// the lease.
func (r *run) uncertain(forced []history.Op) []history.Op {
	for i, op := range forced {
		for _, p := range r.roles.over(op.Resource) {
			if at := max(p.at, op.Return); op.Call <= p.at+askedBefore+answers && r.ledgers[p.node].DeadlineAt(op.Resource, op.Store, at) > at {
				forced[i].Outcome = history.Unknown
			}
		}
	}
	return forced
}

// seenSince returns a history without what observers saw until the last failover that may have lost a term was known. They
// also see terms that no replica has confirmed, and that no candidate was told of.
func (r *run) seenSince(ops []history.Op) []history.Op {
	if r.roles == nil || r.orderly() {
		return ops
	}
	since := time.Duration(-1)
	for _, p := range r.roles.promotions() {
		since = max(since, p.at, p.known)
		if p.known == 0 {
			since = endless
		}
	}
	return slices.DeleteFunc(slices.Clone(ops), func(op history.Op) bool { return op.Kind == history.Seen && op.Return <= since })
}

// judgeReigns compares the trust windows with what each server did while it was the master.
func (r *run) judgeReigns(ops []history.Op, over failovers) (windows int, found []check.Violation) {
	skip := map[string]bool{}
	for _, x := range over.lost {
		skip[x.acquire.Resource+" "+x.acquire.Holder] = true
	}
	for node, l := range r.ledgers {
		from := time.Duration(-1)
		if slices.Contains(r.roles.first, node) {
			from = 0
		}
		shard := func(resource string) bool { return slices.Contains(r.roles.shards[resource], node) }
		for _, p := range r.roles.promotions() {
			switch {
			case p.node == node && from < 0:
				l.Blind(0, p.at)
				from = p.at
			case from >= 0 && r.roles.same(p.node, node):
				l.Blind(p.from, endless)
				from = endless
			}
		}
		if from < 0 {
			continue // it never was a master
		}
		mine := slices.DeleteFunc(slices.Clone(ops), func(op history.Op) bool { return !shard(op.Resource) || skip[op.Resource+" "+op.Holder] })
		n, more := ledger.Judge(mine, r.p.TTL, []*ledger.Ledger{l})
		windows, found = windows+n, append(found, more...)
	}
	return windows, found
}

// same reports whether two servers may have the same resources.
func (o *roles) same(a, b int) bool {
	for _, nodes := range o.shards {
		if slices.Contains(nodes, a) && slices.Contains(nodes, b) {
			return true
		}
	}
	return false
}
