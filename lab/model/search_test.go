package model_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/model"
)

// TestSameVerdictAsTheSearch compares the judges of package model with a general search for an
// order, on small histories of a lock that is right, and on the same with one time, token or
// weight changed.
func TestSameVerdictAsTheSearch(t *testing.T) {
	const histories = 3000
	for name, judge := range map[string]struct {
		check  check.Check
		tokens bool
	}{"with tokens": {model.Lock(0), true}, "without tokens": {model.Exclusion(0), false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(3, 4))
			right, legal, illegal := 0, 0, 0
			for range histories {
				ops := small(r)
				for _, corrupted := range []bool{false, true} {
					if corrupted {
						corrupt(r, ops)
					}
					want := search(ops, judge.tokens)
					found := check.Run(ops, judge.check)
					if (len(found) == 0) != (want == porcupine.Ok) || want == porcupine.Unknown {
						t.Fatalf("search: %v, judge: %v\n%v", want, found, printed(ops))
					}
					switch {
					case want == porcupine.Illegal && !corrupted:
						t.Fatalf("not right: %v\n%v", found, printed(ops))
					case want == porcupine.Illegal:
						illegal++
					case corrupted:
						legal++
					default:
						right++
					}
				}
			}
			t.Logf("%d right, %d corrupted and legal, %d illegal", right, legal, illegal)
			if legal < histories/10 || illegal < histories/10 {
				t.Errorf("%d corrupted and legal, %d illegal of %d: too few of a kind", legal, illegal, histories)
			}
		})
	}
}

func printed(ops []history.Op) string {
	var b strings.Builder
	for _, op := range ops {
		fmt.Fprintf(&b, "%+v\n", op)
	}
	return b.String()
}

// small plays a lock of a random capacity and returns the history of a few leases: calls
// overlap, replies are late, some after the end of the window, some releases have no answer, and some leases are lowered,
// lost or ended by an operator.
func small(r *rand.Rand) []history.Op {
	upTo := func(n int) time.Duration { return time.Duration(r.IntN(n + 1)) }
	type lease struct {
		end    time.Duration
		weight int
	}
	var ops []history.Op
	var held []lease
	capacity := 1 + r.IntN(4)
	now := time.Duration(100)
	for n := range 2 + r.IntN(6) {
		h, weight := fmt.Sprint("h", n), 1+r.IntN(capacity)
		if r.IntN(2) == 0 {
			weight = 1
		}
		now += upTo(3)
		for { // until there is room
			held = slices.DeleteFunc(held, func(l lease) bool { return l.end <= now })
			used, next := weight, now
			for _, l := range held {
				if used += l.weight; next == now || l.end < next {
					next = l.end
				}
			}
			if used <= capacity {
				break
			}
			now = next
		}
		got := now + upTo(8)
		until := now + upTo(20)
		if r.IntN(3) == 0 {
			until = 1000
		}
		end := until
		ops = append(ops, weighing(grant(h, now-upTo(10), got, until, uint64(n+1)), weight, capacity))
		if weight > 1 && r.IntN(3) == 0 {
			ops = append(ops, history.Op{Client: "c", Kind: history.Renew, Resource: "r", Holder: h, Outcome: history.OK,
				Call: got, Return: got, Weight: 1})
		}
		over := got + upTo(12)
		switch r.IntN(8) {
		case 0, 1, 2:
			ops = append(ops, release(h, over, over+upTo(9), history.OK))
			end = min(end, over+upTo(int(ops[len(ops)-1].Return-over)))
		case 3, 4:
			ops = append(ops, release(h, over, over, history.Unknown))
			end = min(end, over+upTo(20))
		case 5:
			ops = append(ops, history.Op{Client: "c", Kind: history.Lost, Resource: "r", Holder: h, Outcome: history.OK, Call: over, Return: over})
			end = min(end, over)
		case 6:
			op := release(h, over+1, over+1, history.OK)
			op.Client = "operator"
			ops = append(ops, op)
			end = min(end, over+1)
		}
		held = append(held, lease{max(end, now), weight})
	}
	return ops
}

// corrupt changes one operation.
func corrupt(r *rand.Rand, ops []history.Op) {
	op := &ops[r.IntN(len(ops))]
	by := time.Duration(1 + r.IntN(12))
	if r.IntN(2) == 0 {
		by = -by
	}
	switch op.Kind {
	case history.Acquire:
		switch r.IntN(6) {
		case 0:
			op.Token = uint64(r.IntN(int(op.Token) + 2))
		case 1:
			op.Call, op.Return = op.Call+by, op.Return+by
		case 2:
			op.Until = max(op.Until+by, 1) // 0 would be none
		case 3:
			op.Weight = op.Capacity
		case 4:
			op.Call = op.Return
		case 5:
			op.Return = op.Call
		}
	case history.Release:
		if r.IntN(2) == 0 {
			op.Outcome = history.Failed
			return
		}
		op.Call, op.Return = op.Call+by, op.Return+by
	default:
		op.Call, op.Return = op.Call+by, op.Return+by
	}
}

// search looks for an order of the steps of a history of one resource.
func search(ops []history.Op, tokens bool) porcupine.CheckResult {
	m := porcupine.Model{
		Init: func() any { return state{} },
		Step: func(s, in, _ any) (bool, any) { return s.(state).next(in.(step), tokens) },
		Equal: func(a, b any) bool {
			return a.(state).top == b.(state).top && slices.Equal(a.(state).held, b.(state).held)
		},
	}
	return porcupine.CheckOperationsTimeout(m, steps(ops), time.Minute)
}

const never = time.Duration(1<<63 - 1)

// steps converts a history to steps of the state machine. A release or an expiry may take effect
// as late as ever.
func steps(ops []history.Op) []porcupine.Operation {
	var out []porcupine.Operation
	add := func(s step, call, ret time.Duration) {
		out = append(out, porcupine.Operation{ClientId: len(out), Input: s, Call: int64(call), Return: int64(ret)})
	}
	for _, g := range ops {
		if g.Kind != history.Acquire {
			continue
		}
		ofOperator := func(op history.Op) bool { return op.Kind == history.Release && op.Client != g.Client }
		if slices.ContainsFunc(ops, func(op history.Op) bool { return op.Holder == g.Holder && ofOperator(op) && op.Call <= g.Return }) {
			continue // a hand-off of a lease that had ended
		}
		add(step{do: take, holder: g.Holder, token: g.Token, weight: g.Weight, capacity: g.Capacity}, g.Call, g.Return)
		add(step{do: give, holder: g.Holder}, g.Until, never)
		for _, op := range ops {
			switch {
			case op.Holder != g.Holder:
			case op.Kind == history.Renew:
				add(step{do: lower, holder: g.Holder, weight: op.Weight}, max(op.Call, g.Return), never)
			case op.Kind == history.Lost, ofOperator(op), op.Kind == history.Release && op.Outcome != history.Failed:
				add(step{do: give, holder: g.Holder}, op.Call, never)
			}
		}
	}
	return out
}

// verb is the kind of a step.
type verb uint8

const (
	take  verb = iota // an acquire
	give              // a release or an expiry; no effect without a grant
	lower             // a lower weight; no effect without a grant
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

// next returns the state after a step, and whether the step is legal.
func (s state) next(in step, tokens bool) (bool, state) {
	at, holds := slices.BinarySearchFunc(s.held, in.holder, func(h share, id string) int { return cmp.Compare(h.holder, id) })
	switch in.do {
	case take:
		used := in.weight
		for _, h := range s.held {
			used += h.weight
		}
		if used > in.capacity || tokens && in.token <= s.top {
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
