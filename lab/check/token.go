package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/lab/history"
)

// Tokens: every lease has a fencing token, which its holder presents to the protected side,
// and the tokens of a resource are unique and increase in grant order. The order of two
// grants is known if one returned before the other was called, and, for grants of the whole
// capacity, by their return. Readers of one client that share a lease of the store have one token, and
// a reader may join one that was granted before its call, so the token of each of them is compared with those of
// writers alone. It is for locks with tokens.
func Tokens() Check {
	return Check{"tokens", func(ops []history.Op) []Violation { return append(tokens(ops), presented(ops)...) }}
}

func tokens(ops []history.Op) []Violation {
	var out []Violation
	for _, group := range byResource(leases(ops)) {
		given := map[uint64]*lease{}
		for _, s := range group {
			if s.token == 0 {
				out = append(out, Violation{"tokens", s.resource, s.start, fmt.Sprintf("granted without a token: %v", s)})
				continue
			}
			if other := given[s.token]; other != nil && !s.shares(other) {
				out = append(out, Violation{"tokens", s.resource, s.start, fmt.Sprintf("granted twice: %v and %v", other, s)})
			}
			given[s.token] = s
		}
		out = append(out, disorder(group)...)
	}
	return out
}

// shares reports whether two leases are readers' shares of one lease of the store.
func (s *lease) shares(other *lease) bool {
	return s.isShare() && other.isShare() && s.shared == other.shared && s.client == other.client && s.token == other.token
}

// isShare reports whether the lease is a reader's that others of its client may share.
func (s *lease) isShare() bool { return s.shared != "" && s.capacity > 1 && s.spans[0].weight == 1 }

// presented finds accesses with another token than that of the lease.
func presented(ops []history.Op) []Violation {
	known := map[key]*lease{}
	for _, s := range leases(ops) {
		known[key{s.resource, s.holder}] = s
	}
	var out []Violation
	for _, op := range inOrder(ops, history.Read, history.Write) {
		if s := known[key{op.Resource, op.Holder}]; s != nil && op.Client == s.client && op.Token != s.token {
			out = append(out, Violation{"tokens", op.Resource, op.Call, fmt.Sprintf("%s with token %d, of %v", op.Kind, op.Token, s)})
		}
	}
	return out
}

// disorder finds grants with a smaller token than an earlier one. Leases ended by an
// operator are skipped: until their process receives the notice, it may hand off the
// lease with its own tokens, which the fence refuses.
func disorder(group []*lease) []Violation {
	var out []Violation
	var top *lease // of the leases with the whole capacity, by start
	byEnd := slices.Clone(group)
	next, floor := 0, (*lease)(nil) // highest token of the grants that returned before
	written := (*lease)(nil)        // of those that are of the whole capacity
	slices.SortStableFunc(byEnd, func(a, b *lease) int { return int(a.start - b.start) })
	byCall := slices.Clone(group)
	slices.SortStableFunc(byCall, func(a, b *lease) int { return int(a.call - b.call) })
	for _, s := range byCall {
		for ; next < len(byEnd) && byEnd[next].start < s.call; next++ {
			e := byEnd[next]
			if e.broken == forever && (floor == nil || e.token > floor.token) {
				floor = e
			}
			if e.broken == forever && e.spans[0].weight == e.capacity && (written == nil || e.token > written.token) {
				written = e
			}
		}
		before := floor
		if s.isShare() {
			before = written
		}
		if before != nil && s.token != 0 && s.broken == forever && s.token < before.token {
			out = append(out, Violation{"tokens", s.resource, s.start, fmt.Sprintf("smaller than an earlier one: %v after %v", s, before)})
		}
	}
	for _, s := range group {
		if s.token == 0 || s.broken != forever || s.spans[0].weight < s.capacity || s.end() <= s.start {
			continue
		}
		if top != nil && s.token < top.token && top.start < s.start {
			out = append(out, Violation{"tokens", s.resource, s.start, fmt.Sprintf("%v follows %v", s, top)})
		}
		if top == nil || s.token > top.token {
			top = s
		}
	}
	return out
}

// Stale: the protected side accepts no token smaller than one that it accepted before.
func Stale() Check { return Check{"stale", stale} }

func stale(ops []history.Op) []Violation {
	type place struct{ resource, note string }
	top := map[place]history.Op{}
	var out []Violation
	for _, op := range inOrder(ops, history.Read, history.Write) {
		if op.Outcome != history.OK {
			continue
		}
		at := place{op.Resource, op.Note}
		if before := top[at]; op.Token < before.Token {
			out = append(out, Violation{"stale", op.Resource, op.Return,
				fmt.Sprintf("%s of %s/%s with token %d after %s/%s with %d", op.Kind, op.Client, op.Holder, op.Token, before.Client, before.Holder, before.Token)})
		} else if !shared(op) {
			top[at] = op
		}
	}
	return out
}

// shared reports whether an operation is a reader's, so that others may use smaller
// tokens at the same time.
func shared(op history.Op) bool { return op.Capacity > 1 && max(op.Weight, 1) < op.Capacity }

// Notified: a holder is notified of a loss before another holder enters. The notice is late
// if another relied on the resource while the holder's trust window was open and the
// notice came afterwards, or if the lock reported a valid lease after the end of its own
// trust window. Slack is the time that may pass between two readings of the clock: 0 in
// virtual time.
func Notified(slack time.Duration) Check {
	return Check{"notified", func(ops []history.Op) []Violation { return notified(ops, slack) }}
}

func notified(ops []history.Op, slack time.Duration) []Violation {
	var out []Violation
	for _, group := range byResource(leases(ops)) {
		for i, s := range group {
			if !s.lost {
				continue
			}
			for _, other := range group[i+1:] {
				if other.start >= s.end() {
					break
				}
				if weigh([]*lease{s, other}, other.start) > s.capacity && other.end() > other.start {
					out = append(out, Violation{"notified", s.resource, s.notified,
						fmt.Sprintf("%v was notified %v after %v entered", s, s.notified-other.start, other)})
				}
			}
		}
	}
	for _, op := range inOrder(ops, history.Enter, history.Read, history.Write, history.Run) {
		if op.Until != 0 && op.Call > op.Until+slack {
			out = append(out, Violation{"notified", op.Resource, op.Call,
				fmt.Sprintf("%s of %s/%s was allowed %v after the trust window", op.Kind, op.Client, op.Holder, op.Call-op.Until)})
		}
	}
	return out
}

// Ended: a lease that an operator ended, or that was lost with the store's data, is not
// extended any more: its trust windows end at most one TTL, by the holder's clock, after
// that moment. A break without a reply is skipped, because it may never have been sent.
func Ended(ttl time.Duration) Check {
	return Check{"ended", func(ops []history.Op) []Violation {
		var out []Violation
		for _, s := range leases(ops) {
			if s.ended != forever && s.until > s.ended+ttl {
				out = append(out, Violation{"ended", s.resource, s.ended, fmt.Sprintf("%v was extended to %v after its end", s, s.until)})
			}
		}
		return out
	}}
}

// EndSeen: a holder is notified of the end of its lease within a time that depends on its
// Op.Holder. It is for holders whose renewals reach the store.
func EndSeen(within func(holder string) time.Duration) Check {
	return Check{"end-seen", func(ops []history.Op) []Violation {
		var out []Violation
		for _, s := range leases(ops) {
			if s.broken != forever && s.notified > max(s.broken, s.start)+within(s.holder) {
				out = append(out, Violation{"end-seen", s.resource, s.broken, fmt.Sprintf("%v was notified of its end only at %v", s, s.notified)})
			}
		}
		return out
	}}
}

// Kept: no lease is lost. It is for times without faults.
func Kept() Check {
	return Check{"kept", func(ops []history.Op) []Violation {
		var out []Violation
		for _, s := range leases(ops) {
			if s.lost && s.broken == forever {
				out = append(out, Violation{"kept", s.resource, s.notified, fmt.Sprintf("%v was lost for no reason", s)})
			}
		}
		return out
	}}
}
