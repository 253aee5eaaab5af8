// Package model checks a history against a state machine of a lock: its steps must have
// an order that fits every call, its return and its result. porcupine searches for such
// an order.
//
// The state is the holders and the highest token granted. An acquire is legal iff there
// is room for its weight and its token is higher. A grant that was not certainly released
// expires: this is a separate operation, from the end of its trust window (or the last
// acknowledged send + TTL, for a lock without windows) to the return of the next
// successful acquire. A release of unknown outcome may have happened or not. Definite
// failures are left out, and so are acquires of unknown outcome: they could only exclude
// others, and no order needs them.
//
// A mutex has a capacity of 1; readers, writers and semaphores are the same model with
// weights. Token 0 is never legal; Exclusion is the model of a lock without tokens.
package model

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

// Lock checks each resource of a history against the model of a lock. TTL is that of the
// leases, used only if the history has no trust windows. Limit bounds the search for one
// resource. A search that reaches it is repeated once with longer times the limit, and then
// the history counts as a violation: nothing shows that it is right.
func Lock(ttl, limit time.Duration) check.Check { return lock(ttl, limit, withTokens) }

// Exclusion is Lock for a lock without tokens: it ignores them.
func Exclusion(ttl, limit time.Duration) check.Check { return lock(ttl, limit, withoutTokens) }

// longer is how much longer the second search for an order may take.
const longer = 5

func lock(ttl, limit time.Duration, of tokens) check.Check {
	return check.Check{Name: "model", Find: func(ops []history.Op) []check.Violation {
		var out []check.Violation
		for _, part := range split(ops) {
			steps := operations(part, ttl)
			result := porcupine.CheckOperationsTimeout(machine(of), steps, limit)
			if result == porcupine.Unknown {
				result = porcupine.CheckOperationsTimeout(machine(of), steps, longer*limit)
			}
			switch result {
			case porcupine.Illegal:
				first := earliest(part, ttl, limit, of)
				out = append(out, check.Violation{Check: "model", Resource: part[0].Resource, At: first.Return,
					Text: fmt.Sprintf("no order of grants fits from %s/%s with token %d on", first.Client, first.Holder, first.Token)})
			case porcupine.Unknown:
				out = append(out, check.Violation{Check: "model", Resource: part[0].Resource,
					Text: fmt.Sprintf("undecided: no order of %d steps was found or excluded in %v", len(steps), longer*limit)})
			}
		}
		return out
	}}
}

// split groups the operations by resource, in the order of first use.
func split(ops []history.Op) [][]history.Op {
	index := map[string]int{}
	var parts [][]history.Op
	for _, op := range ops {
		switch op.Kind {
		case history.Acquire, history.Release, history.Renew, history.Lost:
		default:
			continue
		}
		i, ok := index[op.Resource]
		if !ok {
			i = len(parts)
			index[op.Resource] = i
			parts = append(parts, nil)
		}
		parts[i] = append(parts[i], op)
	}
	return parts
}

// earliest returns the first acquire with which a history is illegal.
func earliest(part []history.Op, ttl, limit time.Duration, of tokens) history.Op {
	grants := granted(part)
	n, _ := slices.BinarySearchFunc(grants, true, func(op history.Op, _ bool) int {
		upTo := slices.DeleteFunc(slices.Clone(part), func(o history.Op) bool {
			return o.Kind == history.Acquire && o.Return > op.Return
		})
		if porcupine.CheckOperationsTimeout(machine(of), operations(upTo, ttl), limit) == porcupine.Illegal {
			return 0
		}
		return -1
	})
	return grants[min(n, len(grants)-1)]
}

// granted returns the successful acquires, in the order of their return.
func granted(part []history.Op) []history.Op {
	var grants []history.Op
	for _, op := range part {
		if op.Kind == history.Acquire && op.Outcome == history.OK {
			grants = append(grants, op)
		}
	}
	slices.SortStableFunc(grants, func(a, b history.Op) int { return int(a.Return - b.Return) })
	return grants
}

const never = time.Duration(1<<63 - 1)

// operations converts a history of one resource to steps of the state machine.
func operations(part []history.Op, ttl time.Duration) []porcupine.Operation {
	grants, ended := lawful(part)
	var out []porcupine.Operation
	add := func(s step, call, ret time.Duration) {
		out = append(out, porcupine.Operation{ClientId: len(out), Input: s, Call: int64(call), Return: int64(ret)})
	}
	expires, released := map[string]time.Duration{}, map[string]time.Duration{}
	for _, g := range grants {
		add(step{do: take, holder: g.Holder, token: g.Token, weight: max(g.Weight, 1), capacity: max(g.Capacity, 1)}, g.Call, g.Return)
		expires[g.Holder] = windowEnd(g, ttl)
	}
	for _, op := range part {
		end, known := expires[op.Holder]
		if !known {
			continue
		}
		switch {
		case op.Kind == history.Renew && op.Weight > 0:
			add(step{do: lower, holder: op.Holder, weight: op.Weight}, op.Call, max(op.Call, op.Return))
		case op.Kind == history.Renew && op.Outcome == history.OK:
			expires[op.Holder] = max(end, windowEnd(op, ttl))
		case op.Kind == history.Release && op.Outcome == history.OK:
			add(step{do: give, holder: op.Holder}, op.Call, max(op.Call, op.Return))
			if _, twice := released[op.Holder]; !twice {
				released[op.Holder] = max(op.Call, op.Return)
			}
		case op.Kind == history.Release && op.Outcome == history.Unknown:
			add(step{do: give, holder: op.Holder}, op.Call, never)
		}
	}
	for _, g := range grants {
		from := expires[g.Holder]
		if at, over := ended[g.Holder]; over {
			from = min(from, at)
		}
		if at, over := released[g.Holder]; over && at < from {
			continue // what is released does not expire
		}
		if from != never {
			add(step{do: give, holder: g.Holder}, from, nextGrant(grants, g, from))
		}
	}
	return out
}

// lawful returns the grants of the store, and the times at which the store had removed
// those that ended early: they were lost, or another client released them, as an operator
// does. A hand-off of a lease that an operator had ended is not a grant of the store.
func lawful(part []history.Op) (grants []history.Op, ended map[string]time.Duration) {
	ended = map[string]time.Duration{}
	grants = granted(part)
	by := map[string]string{}
	for _, g := range grants {
		by[g.Holder] = g.Client
	}
	operated := map[string]time.Duration{}
	for _, op := range part {
		foreign := op.Kind == history.Release && op.Client != by[op.Holder]
		if !foreign && op.Kind != history.Lost {
			continue
		}
		if at, twice := ended[op.Holder]; !twice || op.Call < at {
			ended[op.Holder] = op.Call
		}
		if foreign {
			operated[op.Holder] = op.Call
		}
	}
	grants = slices.DeleteFunc(grants, func(g history.Op) bool {
		at, over := operated[g.Holder]
		return over && at <= g.Return
	})
	return grants, ended
}

// windowEnd returns the time until which an acquire or renewal certainly excludes others.
func windowEnd(op history.Op, ttl time.Duration) time.Duration {
	switch {
	case op.Until != 0:
		return op.Until
	case ttl > 0:
		return op.Call + ttl
	}
	return never
}

// nextGrant returns the return of the first acquire that may have needed the expiry.
func nextGrant(grants []history.Op, g history.Op, from time.Duration) time.Duration {
	for _, other := range grants {
		if other.Return >= from && other.Holder != g.Holder {
			return other.Return
		}
	}
	return never
}

// verb is the kind of a step.
type verb uint8

const (
	take  verb = iota // an acquire
	give              // a release or an expiry; no effect without a grant
	lower             // a lower weight
)

type step struct {
	do               verb
	holder           string
	token            uint64
	weight, capacity int
}

// state is the holders, in order of their name, and the highest token. It is immutable.
type state struct {
	held []share
	top  uint64
}

type share struct {
	holder string
	weight int
}

// tokens reports whether a lock has tokens.
type tokens uint8

const (
	withTokens tokens = iota
	withoutTokens
)

func machine(of tokens) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, in, _ any) (bool, any) { return s.(state).next(in.(step), of) },
		Equal: func(a, b any) bool {
			return a.(state).top == b.(state).top && slices.Equal(a.(state).held, b.(state).held)
		},
	}
}

// next returns the state after a step, and whether the step is legal.
func (s state) next(in step, of tokens) (bool, state) {
	at, holds := slices.BinarySearchFunc(s.held, in.holder, func(h share, id string) int { return strings.Compare(h.holder, id) })
	switch in.do {
	case take:
		used := in.weight
		for _, h := range s.held {
			used += h.weight
		}
		if used > in.capacity || of == withTokens && in.token <= s.top {
			return false, s
		}
		return true, state{slices.Insert(slices.Clone(s.held), at, share{in.holder, in.weight}), max(s.top, in.token)}
	case lower:
		if holds && s.held[at].weight > in.weight {
			held := slices.Clone(s.held)
			held[at].weight = in.weight
			return true, state{held, s.top}
		}
	case give:
		if holds {
			return true, state{slices.Delete(slices.Clone(s.held), at, at+1), s.top}
		}
	}
	return true, s
}
