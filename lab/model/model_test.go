package model_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
	"github.com/holdfast-go/holdfast/lab/model"
)

func grant(holder string, call, ret, until time.Duration, token uint64) history.Op {
	return history.Op{Client: "c", Kind: history.Acquire, Resource: "r", Holder: holder, Outcome: history.OK,
		Call: call, Return: ret, Until: until, Token: token}
}

func release(holder string, call, ret time.Duration, out history.Outcome) history.Op {
	return history.Op{Client: "c", Kind: history.Release, Resource: "r", Holder: holder, Outcome: out, Call: call, Return: ret}
}

func weighing(op history.Op, weight, capacity int) history.Op {
	op.Weight, op.Capacity = weight, capacity
	return op
}

func reader(holder string, call, ret time.Duration, token uint64, shared string) history.Op {
	op := weighing(grant(holder, call, ret, 90, token), 1, 9)
	op.Shared = shared
	return op
}

func TestPlantedHistories(t *testing.T) {
	lowered := history.Op{Client: "c", Kind: history.Renew, Resource: "r", Holder: "a", Weight: 1, Call: 3, Return: 3, Outcome: history.OK}
	lost := history.Op{Client: "c", Kind: history.Lost, Resource: "r", Holder: "a", Call: 3, Return: 3, Outcome: history.OK}
	renewed := history.Op{Client: "c", Kind: history.Renew, Resource: "r", Holder: "a", Call: 3, Return: 4, Until: 90, Outcome: history.OK}
	unrenewed, less, early := renewed, lowered, lowered
	unrenewed.Outcome = history.Failed
	less.Weight, less.Call, less.Return = 5, 4, 4
	early.Call, early.Return = 1, 2
	gone := weighing(history.Op{Client: "c", Kind: history.Acquire, Resource: "r", Holder: "g", Call: 1, Return: 4, Outcome: history.Failed, Note: check.Waited}, 1, 9)
	stranger := gone
	stranger.Client = "d"
	operator := release("a", 2, 2, history.OK)
	operator.Client = "operator"
	for name, p := range map[string]struct {
		legal bool
		ops   []history.Op
	}{
		"in turn":                       {true, []history.Op{grant("a", 0, 1, 90, 1), release("a", 2, 3, history.OK), grant("b", 0, 4, 90, 2)}},
		"both hold":                     {false, []history.Op{grant("a", 0, 1, 90, 1), grant("b", 0, 4, 90, 2)}},
		"expired":                       {true, []history.Op{grant("a", 0, 1, 5, 1), grant("b", 0, 6, 90, 2)}},
		"released too late to matter":   {true, []history.Op{grant("a", 0, 1, 5, 1), grant("b", 0, 6, 90, 2), release("a", 8, 9, history.Failed)}},
		"granted before it was over":    {false, []history.Op{grant("a", 0, 1, 5, 1), grant("b", 2, 4, 90, 2)}},
		"released while it was granted": {true, []history.Op{grant("a", 0, 1, 90, 1), release("a", 2, 9, history.OK), grant("b", 3, 4, 90, 2)}},
		"unknown release":               {true, []history.Op{grant("a", 0, 1, 90, 1), release("a", 2, 3, history.Unknown), grant("b", 3, 44, 90, 2)}},
		"failed release":                {false, []history.Op{grant("a", 0, 1, 90, 1), release("a", 2, 3, history.Failed), grant("b", 3, 44, 90, 2)}},
		"the store dropped it":          {true, []history.Op{grant("a", 0, 1, 90, 1), lost, grant("b", 3, 44, 90, 2)}},
		"an operator ended it":          {true, []history.Op{grant("a", 0, 1, 90, 1), operator, grant("b", 0, 3, 90, 2)}},
		"an operator ended it later":    {false, []history.Op{grant("a", 0, 1, 90, 1), operator, grant("b", 0, 1, 90, 2)}},
		"handed on after it was ended":  {true, []history.Op{operator, grant("b", 0, 3, 90, 9), grant("a", 3, 4, 90, 1)}},
		"renewed":                       {false, []history.Op{grant("a", 0, 1, 5, 1), renewed, grant("b", 0, 6, 90, 2)}},
		"a renewal that failed":         {true, []history.Op{grant("a", 0, 1, 5, 1), unrenewed, grant("b", 0, 6, 90, 2)}},
		"token again":                   {false, []history.Op{grant("a", 0, 1, 90, 7), release("a", 2, 3, history.OK), grant("b", 4, 5, 90, 7)}},
		"token lower":                   {false, []history.Op{grant("a", 0, 1, 90, 7), release("a", 2, 3, history.OK), grant("b", 0, 5, 90, 6)}},
		"no tokens":                     {false, []history.Op{grant("a", 0, 1, 90, 0), release("a", 2, 3, history.OK), grant("b", 0, 5, 90, 0)}},
		"unknown acquire":               {true, []history.Op{{Client: "c", Kind: history.Acquire, Resource: "r", Holder: "a", Outcome: history.Unknown}, grant("b", 0, 5, 90, 1)}},
		"two of two":                    {true, []history.Op{weighing(grant("a", 0, 1, 90, 1), 1, 2), weighing(grant("b", 0, 1, 90, 2), 1, 2)}},
		"three of two":                  {false, []history.Op{weighing(grant("a", 0, 1, 90, 1), 1, 2), weighing(grant("b", 0, 1, 90, 2), 2, 2)}},
		"writer lowered":                {true, []history.Op{weighing(grant("a", 0, 1, 90, 1), 9, 9), lowered, weighing(grant("b", 0, 4, 90, 2), 1, 9)}},
		"lowered twice":                 {true, []history.Op{weighing(grant("a", 0, 1, 90, 1), 9, 9), lowered, less, weighing(grant("b", 5, 6, 90, 2), 8, 9)}},
		"lowered when it was granted":   {false, []history.Op{weighing(grant("a", 0, 2, 90, 1), 9, 9), early, weighing(grant("b", 1, 1, 90, 2), 1, 9)}},
		"readers that share":            {true, []history.Op{reader("a", 0, 1, 1, "l"), release("a", 4, 5, history.OK), reader("b", 2, 3, 1, "l"), release("b", 6, 7, history.OK), weighing(grant("c", 0, 8, 90, 2), 9, 9)}},
		"taken over from one who left":  {true, []history.Op{gone, weighing(grant("b", 3, 3, 90, 2), 1, 9), reader("a", 4, 5, 1, "l")}},
		"taken over from a stranger":    {false, []history.Op{stranger, weighing(grant("b", 3, 3, 90, 2), 1, 9), reader("a", 4, 5, 1, "l")}},
		"a writer among shares":         {false, []history.Op{reader("a", 0, 1, 1, "l"), release("a", 2, 3, history.OK), weighing(grant("w", 3, 4, 90, 2), 9, 9), release("w", 5, 6, history.OK), reader("b", 7, 8, 1, "l")}},
		"shares of two leases":          {false, []history.Op{reader("a", 0, 1, 1, "l"), reader("b", 2, 3, 1, "m")}},
		"shares of none":                {false, []history.Op{reader("a", 0, 1, 1, ""), reader("b", 2, 3, 1, "")}},
		"a writer beside a share":       {false, []history.Op{reader("a", 0, 1, 1, "l"), release("a", 2, 3, history.OK), reader("b", 1, 2, 1, "l"), weighing(grant("w", 0, 4, 90, 2), 9, 9)}},
		"writer and reader":             {false, []history.Op{weighing(grant("a", 0, 1, 90, 1), 9, 9), weighing(grant("b", 0, 4, 90, 2), 1, 9)}},
	} {
		t.Run(name, func(t *testing.T) {
			found := check.Run(p.ops, model.Lock(0))
			if (len(found) == 0) != p.legal {
				t.Errorf("found %v", found)
			}
		})
	}
}

// A lock without tokens is judged by exclusion alone.
func TestWithoutTokens(t *testing.T) {
	ops := []history.Op{grant("a", 0, 1, 90, 0), release("a", 2, 3, history.OK), grant("b", 0, 5, 90, 0)}
	if found := check.Run(ops, model.Exclusion(0)); len(found) > 0 {
		t.Errorf("found %v", found)
	}
	if found := check.Run(append(ops, grant("c", 0, 6, 90, 0)), model.Exclusion(0)); len(found) != 1 {
		t.Errorf("found %v", found)
	}
}

// Readers that release at the instant of their grant, as in virtual time, have many orders, and a
// general search tries most of them before it places the writer behind them (seeds 1116 and 2918 of documents).
func TestManyReadersAndAWriter(t *testing.T) {
	const readers, stays = 500, 321
	ops := func(unreleased int) []history.Op {
		var ops []history.Op
		for n := range readers {
			h, at := fmt.Sprint("h", n), time.Duration(10*n)
			ops = append(ops, weighing(grant(h, at, at, at+20*readers, uint64(n+1)), 1, 1<<20))
			if n != unreleased {
				ops = append(ops, release(h, at, at, []history.Outcome{history.OK, history.Unknown}[n%2]))
			}
		}
		return append(ops, weighing(grant("w", 10*readers, 10*readers, 90*readers, readers+1), 1<<20, 1<<20))
	}
	for name, judge := range map[string]check.Check{"lock": model.Lock(0), "exclusion": model.Exclusion(0)} {
		if found := check.Run(ops(-1), judge); len(found) > 0 {
			t.Errorf("%s: found %v", name, found)
		}
		found := check.Run(ops(stays), judge)
		if len(found) != 1 || !strings.Contains(found[0].Text, fmt.Sprintf("c/h%d ", stays)) {
			t.Errorf("%s: a writer beside a reader: found %v", name, found)
		}
	}
}

// A lock without windows is good for its TTL from the last send.
func TestWithoutWindows(t *testing.T) {
	ops := []history.Op{grant("a", 0, 1, 0, 1), grant("b", 0, 11, 0, 2)}
	if found := check.Run(ops, model.Lock(10)); len(found) > 0 {
		t.Errorf("found %v", found)
	}
	if found := check.Run(ops, model.Lock(20)); len(found) != 1 {
		t.Errorf("found %v", found)
	}
}

// invented makes up the history of a right lock with many clients: calls overlap,
// some leases expire and some releases go unanswered.
func invented(r *rand.Rand, grants int) []history.Op {
	var ops []history.Op
	now := time.Duration(0)
	for n := range grants {
		h := fmt.Sprint("h", n)
		from := max(0, now-time.Duration(r.IntN(300)))
		now += time.Duration(1 + r.IntN(20))
		end := now + 50
		ops = append(ops, grant(h, from, now+time.Duration(r.IntN(5)), end, uint64(now)))
		switch r.IntN(4) {
		case 0: // it expires
			now = end
		case 1:
			now += time.Duration(10 + r.IntN(20))
			ops = append(ops, release(h, now, now+time.Duration(r.IntN(9)), history.Unknown))
		default:
			now += time.Duration(10 + r.IntN(20))
			ops = append(ops, release(h, now-5, now+time.Duration(r.IntN(9)), history.OK))
		}
	}
	return ops
}

func TestNoFalseAlarmAndPlantedGrantsAreFound(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	missed, planted := 0, 0
	for range 200 {
		ops := invented(r, 60)
		if found := check.Run(ops, model.Lock(0)); len(found) > 0 {
			t.Fatalf("false alarm: %v in %v", found, ops)
		}
		g := ops[r.IntN(len(ops))]
		if g.Kind != history.Acquire {
			continue
		}
		planted++
		second := grant("second", g.Return+1, g.Return+2, g.Return+40, g.Token+1) // while g cannot be over
		if found := check.Run(append(ops, second), model.Lock(0)); len(found) == 0 {
			missed++
		}
	}
	if planted < 50 || missed > 0 {
		t.Errorf("%d of %d planted grants missed", missed, planted)
	}
}

func BenchmarkMutex(b *testing.B) {
	ops := invented(rand.New(rand.NewPCG(1, 2)), 3000)
	for b.Loop() {
		if found := check.Run(ops, model.Lock(0)); len(found) > 0 {
			b.Fatal(found)
		}
	}
}
