package check_test

import (
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/check"
	"github.com/holdfast-go/holdfast/lab/history"
)

const second = time.Second

// at turns seconds into an instant.
func at(s float64) time.Duration { return time.Duration(s * float64(second)) }

// got is a grant: requested and granted at instants in seconds, valid until another.
func got(holder string, call, ret, until float64, token uint64) history.Op {
	return history.Op{Client: "c" + holder, Kind: history.Acquire, Resource: "r", Holder: holder, Outcome: history.OK,
		Call: at(call), Return: at(ret), Until: at(until), Token: token}
}

func op(kind history.Kind, holder string, when float64) history.Op {
	return history.Op{Client: "c" + holder, Kind: kind, Resource: "r", Holder: holder, Outcome: history.OK, Call: at(when), Return: at(when)}
}

// with changes an operation.
func with(o history.Op, change func(*history.Op)) history.Op {
	change(&o)
	return o
}

func weighing(o history.Op, weight, capacity int) history.Op {
	o.Weight, o.Capacity = weight, capacity
	return o
}

// reader is a grant of one of nine units, as a share of a lease.
func reader(holder string, call, ret float64, token uint64, shared string) history.Op {
	return with(weighing(got(holder, call, ret, 9, token), 1, 9), func(o *history.Op) { o.Shared = shared })
}

func value(kind history.Kind, note string, when float64, v int64, token uint64) history.Op {
	return history.Op{Client: "c", Kind: kind, Resource: "r", Holder: "h", Outcome: history.OK, Note: note,
		Call: at(when), Return: at(when), Value: v, Token: token}
}

// presenting is a write of a holder with a token.
func presenting(holder string, token uint64) history.Op {
	return with(op(history.Write, holder, 1.5), func(o *history.Op) { o.Token = token })
}

func failed(o history.Op) history.Op { o.Outcome = history.Failed; return o }

func unknown(o history.Op) history.Op { o.Outcome = history.Unknown; return o }

func renewed(holder string, when, until float64) history.Op {
	return with(op(history.Renew, holder, when), func(o *history.Op) { o.Until = at(until) })
}

func by(client string, o history.Op) history.Op { o.Client = client; return o }

// planted is a history and how often the check must cry.
type planted struct {
	name  string
	check check.Check
	want  int
	ops   []history.Op
}

func run(t *testing.T, all []planted) {
	t.Helper()
	for _, p := range all {
		t.Run(p.check.Name+"/"+strings.ReplaceAll(p.name, " ", "-"), func(t *testing.T) {
			found := check.Run(p.ops, p.check)
			if len(found) != p.want {
				t.Errorf("%d violations, want %d: %v", len(found), p.want, found)
			}
			for _, v := range found {
				if v.Check != p.check.Name || v.Text == "" {
					t.Errorf("violation %+v", v)
				}
			}
		})
	}
}

func TestOverlap(t *testing.T) {
	o := check.Overlap()
	run(t, []planted{
		{"one after the other", o, 0, []history.Op{got("a", 0, 1, 9, 1), op(history.Release, "a", 2), got("b", 0, 2, 9, 2)}},
		{"both hold", o, 1, []history.Op{got("a", 0, 1, 9, 1), got("b", 0, 2, 9, 2)}},
		{"the first one's window had closed", o, 0, []history.Op{got("a", 0, 1, 2, 1), got("b", 0, 2, 9, 2), op(history.Release, "a", 5)}},
		{"the first one's window was extended", o, 1, []history.Op{got("a", 0, 1, 2, 1), renewed("a", 1.5, 8), got("b", 0, 2, 9, 2)}},
		{"a renewal that failed extends nothing", o, 0, []history.Op{got("a", 0, 1, 2, 1), failed(renewed("a", 1.5, 8)), got("b", 0, 2, 9, 2)}},
		{"the first one was notified in time", o, 0, []history.Op{got("a", 0, 1, 9, 1), op(history.Lost, "a", 2), got("b", 0, 2, 9, 2)}},
		{"the first one is dead", o, 0, []history.Op{got("a", 0, 1, 9, 1), op(history.Leave, "a", 2), got("b", 0, 2, 9, 2)}},
		{"an operator may have ended it", o, 0, []history.Op{got("a", 0, 1, 9, 1), unknown(by("op", op(history.Release, "a", 2))), got("b", 0, 3, 9, 2)}},
		{"an operator ended it", o, 0, []history.Op{got("a", 0, 1, 9, 1), by("op", op(history.Release, "a", 2)), got("b", 0, 3, 9, 2)}},
		{"a lock without windows", o, 1, []history.Op{got("a", 0, 1, 0, 0), got("b", 0, 2, 0, 0), op(history.Release, "a", 3)}},
		{"other resources", o, 0, []history.Op{got("a", 0, 1, 9, 1), with(got("b", 0, 2, 9, 2), func(o *history.Op) { o.Resource = "s" })}},
		{"readers together", o, 0, []history.Op{weighing(got("a", 0, 1, 9, 1), 1, 100), weighing(got("b", 0, 1, 9, 2), 1, 100)}},
		{"a reader and a writer", o, 1, []history.Op{weighing(got("a", 0, 1, 9, 1), 1, 100), weighing(got("b", 0, 1, 9, 2), 100, 100)}},
		{"a writer that became a reader", o, 0, []history.Op{weighing(got("a", 0, 1, 9, 1), 100, 100),
			with(op(history.Renew, "a", 2), func(o *history.Op) { o.Weight = 1 }), weighing(got("b", 0, 3, 9, 2), 1, 100)}},
		{"three of two", o, 1, []history.Op{weighing(got("a", 0, 1, 9, 1), 1, 2), weighing(got("b", 0, 1, 9, 2), 1, 2), weighing(got("c", 0, 1, 9, 3), 1, 2)}},
		{"two of two", o, 0, []history.Op{weighing(got("a", 0, 1, 9, 1), 1, 2), weighing(got("b", 0, 1, 9, 2), 1, 2)}},
		{"a grant that came too late", o, 0, []history.Op{got("a", 0, 3, 2, 1), got("b", 0, 2, 9, 2)}},
	})
}

func TestInside(t *testing.T) {
	in := check.Inside()
	run(t, []planted{
		{"in turn", in, 0, []history.Op{got("a", 0, 1, 9, 1), op(history.Enter, "a", 1), op(history.Leave, "a", 2), got("b", 0, 2, 9, 2), op(history.Enter, "b", 2)}},
		{"both inside", in, 1, []history.Op{got("a", 0, 1, 9, 1), op(history.Enter, "a", 1), got("b", 0, 2, 9, 2), op(history.Enter, "b", 2)}},
		{"both hold but one is inside", in, 0, []history.Op{got("a", 0, 1, 9, 1), got("b", 0, 2, 9, 2), op(history.Enter, "b", 2)}},
		{"without the lock", in, 1, []history.Op{op(history.Enter, "a", 1)}},
	})
}

func TestTokens(t *testing.T) {
	c := check.Tokens()
	run(t, []planted{
		{"growing", c, 0, []history.Op{got("a", 0, 1, 2, 5), got("b", 1, 3, 9, 7)}},
		{"twice", c, 1, []history.Op{got("a", 0, 1, 2, 5), got("b", 1, 3, 9, 5)}},
		{"smaller and requested later", c, 2, []history.Op{got("a", 0, 1, 2, 5), got("b", 2, 3, 9, 4)}},
		{"smaller and got later", c, 1, []history.Op{got("a", 0, 1, 2, 5), got("b", 0, 3, 9, 4)}},
		{"smaller and not in order for readers that requested together", c, 0, []history.Op{weighing(got("a", 0, 1, 9, 5), 1, 9), weighing(got("b", 0, 2, 9, 4), 1, 9)}},
		{"handed on by a process whose lease was broken", c, 0, []history.Op{got("b", 0, 3, 9, 9), by("op", op(history.Release, "a", 2)), got("a", 4, 5, 9, 4)}},
		{"shared by readers of a client", c, 0, []history.Op{reader("a", 0, 1, 5, "l"), weighing(got("b", 0, 2, 9, 7), 1, 9), by("ca", reader("c", 3, 4, 5, "l"))}},
		{"a share is smaller than that of another client's reader", c, 0, []history.Op{weighing(got("b", 0, 2, 9, 7), 1, 9), reader("a", 3, 4, 5, "l"), by("ca", reader("c", 3.5, 4, 5, "l"))}},
		{"a reader that shares none is smaller than another and requested later", c, 1, []history.Op{weighing(got("b", 0, 2, 9, 7), 1, 9), reader("a", 3, 4, 5, "")}},
		{"a share is smaller than a writer's before", c, 1, []history.Op{reader("a", 0, 1, 5, "l"), weighing(got("b", 0, 2, 9, 7), 9, 9), by("ca", reader("c", 3, 4, 5, "l"))}},
		{"a writer's is smaller than a share's before", c, 1, []history.Op{reader("a", 0, 1, 5, "l"), by("ca", reader("c", 1, 2, 5, "l")), weighing(got("b", 2.5, 3, 9, 4), 9, 9)}},
		{"twice, by readers of two clients", c, 1, []history.Op{reader("a", 0, 1, 5, "l"), reader("c", 1, 2, 5, "l")}},
		{"twice, by readers with two leases", c, 1, []history.Op{reader("a", 0, 1, 5, "l"), by("ca", reader("c", 1, 2, 5, "m"))}},
		{"twice, by readers that share none", c, 1, []history.Op{reader("a", 0, 1, 5, ""), by("ca", reader("c", 1, 2, 5, ""))}},
		{"twice, by writers", c, 1, []history.Op{weighing(reader("a", 0, 1, 5, "l"), 9, 9), by("ca", weighing(reader("c", 1, 2, 5, "l"), 9, 9))}},
		{"of different resources", c, 0, []history.Op{got("a", 0, 1, 2, 5), with(got("b", 2, 3, 9, 5), func(o *history.Op) { o.Resource = "s" })}},
		{"none", c, 2, []history.Op{got("a", 0, 1, 2, 0), got("b", 2, 3, 9, 0)}},
		{"presented as granted", c, 0, []history.Op{got("a", 0, 1, 2, 5), presenting("a", 5)}},
		{"granted, and presented as none", c, 1, []history.Op{got("a", 0, 1, 2, 5), presenting("a", 0)}},
		{"presented as the successor's", c, 1, []history.Op{got("a", 0, 1, 2, 5), got("b", 1, 3, 9, 7), presenting("a", 7)}},
	})
}

func TestStale(t *testing.T) {
	c := check.Stale()
	run(t, []planted{
		{"in order", c, 0, []history.Op{value(history.Write, check.Counter, 1, 1, 5), value(history.Write, check.Counter, 2, 2, 5), value(history.Read, check.Counter, 3, 2, 6)}},
		{"none after one", c, 1, []history.Op{value(history.Read, check.Counter, 1, 1, 6), value(history.Write, check.Counter, 2, 2, 0)}},
		{"refused", c, 0, []history.Op{value(history.Read, check.Counter, 1, 1, 6), failed(value(history.Write, check.Counter, 2, 2, 5))}},
		{"accepted", c, 1, []history.Op{value(history.Read, check.Counter, 1, 1, 6), value(history.Write, check.Counter, 2, 2, 5)}},
		{"readers among themselves", c, 0, []history.Op{weighing(value(history.Read, check.Pair, 1, 0, 6), 1, 9), weighing(value(history.Read, check.Pair, 2, 0, 5), 1, 9)}},
		{"a reader before a writer of old", c, 1, []history.Op{weighing(value(history.Write, check.Pair, 1, 0, 6), 9, 9), weighing(value(history.Read, check.Pair, 2, 0, 5), 1, 9)}},
	})
}

func TestNotified(t *testing.T) {
	c := check.Notified(0)
	shows := func(o history.Op, until float64) history.Op { o.Until = at(until); return o }
	run(t, []planted{
		{"in time", c, 0, []history.Op{got("a", 0, 1, 9, 1), op(history.Lost, "a", 2), got("b", 0, 2, 9, 2)}},
		{"0.9 s late", c, 1, []history.Op{got("a", 0, 1, 9, 1), got("b", 0, 2, 9, 2), op(history.Lost, "a", 2.9)}},
		{"a paused one whose window had closed", c, 0, []history.Op{got("a", 0, 1, 2, 1), got("b", 0, 2, 9, 2), op(history.Lost, "a", 5)}},
		{"relied on after its own window", c, 1, []history.Op{shows(op(history.Write, "a", 3), 2)}},
		{"relied on within it", c, 0, []history.Op{shows(op(history.Write, "a", 2), 2)}},
	})
	run(t, []planted{{"within the slack", check.Notified(2 * second), 0, []history.Op{shows(op(history.Write, "a", 3), 2)}}})
}

func TestTerms(t *testing.T) {
	once, again := check.Terms(check.Observers{}), check.Terms(check.Observers{Again: true})
	term := func(holder string, call float64, token uint64) history.Op {
		return with(got(holder, call, call+1, 9, token), func(o *history.Op) { o.Store = "id-" + holder })
	}
	saw := func(who, holder string, when float64, token uint64) history.Op {
		return history.Op{Client: who, Kind: history.Seen, Resource: "r", Outcome: history.OK, Call: at(when), Return: at(when),
			Token: token, Store: "id-" + holder, Note: "c" + holder}
	}
	none := saw("o", "", 3.5, 0)
	run(t, []planted{
		{"in order", once, 0, []history.Op{term("a", 0, 5), saw("o", "a", 2, 5), none, term("b", 3, 7), saw("o", "b", 4, 7)}},
		{"each observer by itself", once, 0, []history.Op{term("a", 0, 5), term("b", 3, 7), saw("o", "b", 4, 7), saw("p", "a", 4, 5)}},
		{"backwards", once, 1, []history.Op{term("a", 0, 5), term("b", 3, 7), saw("o", "b", 4, 7), saw("o", "a", 5, 5)}},
		{"backwards after none", once, 1, []history.Op{term("a", 0, 5), term("b", 1, 7), saw("o", "b", 3, 7), none, saw("o", "a", 5, 5)}},
		{"twice", once, 1, []history.Op{term("a", 0, 5), saw("o", "a", 2, 5), none, saw("o", "a", 4, 5)}},
		{"twice where it may be", again, 0, []history.Op{term("a", 0, 5), saw("o", "a", 2, 5), none, saw("o", "a", 4, 5)}},
		{"two terms of one token", again, 1, []history.Op{saw("o", "a", 2, 5), saw("o", "b", 4, 5)}},
		{"with another token", once, 1, []history.Op{term("a", 0, 5), saw("o", "a", 2, 6)}},
		{"with the token of an earlier ballot", check.Terms(check.Observers{Ballots: true}), 0, []history.Op{term("a", 0, 5), saw("o", "a", 2, 4), saw("o", "a", 3, 5)}},
		{"with a later token than that of all ballots", check.Terms(check.Observers{Ballots: true}), 1, []history.Op{term("a", 0, 5), saw("o", "a", 2, 6)}},
		{"with the token of a ghost", check.Terms(check.Observers{Ghosts: true}), 0, []history.Op{term("a", 0, 5), saw("o", "a", 2, 6)}},
		{"with another's name", once, 1, []history.Op{term("a", 0, 5), with(saw("o", "a", 2, 5), func(o *history.Op) { o.Note = "cb" })}},
		{"before it campaigned", once, 1, []history.Op{saw("o", "a", 1, 5), term("a", 2, 5)}},
		{"of a candidate that was killed before it reported", once, 0, []history.Op{saw("o", "a", 1, 5)}},
	})
}

func TestSignals(t *testing.T) {
	c := check.Signals(time.Second)
	signal := op(history.Signal, "a", 2)
	wait := func(from, to float64) history.Op {
		return with(op(history.Wait, "b", from), func(o *history.Op) { o.Return = at(to) })
	}
	run(t, []planted{
		{"woken", c, 0, []history.Op{signal, wait(1, 2.5)}},
		{"not woken", c, 1, []history.Op{signal, wait(1, 4)}},
		{"given up late", c, 1, []history.Op{signal, failed(wait(1, 4))}},
		{"it began to wait later", c, 0, []history.Op{signal, wait(2.5, 5)}},
		{"the signal failed", c, 0, []history.Op{failed(signal), wait(1, 4)}},
		{"of another resource", c, 0, []history.Op{signal, with(wait(1, 4), func(o *history.Op) { o.Resource = "s" })}},
	})
}

func TestLatches(t *testing.T) {
	latch := check.Latches(at(10))
	call := func(kind history.Kind, from, to float64) history.Op {
		return history.Op{Client: "c", Kind: kind, Resource: "l", Outcome: history.OK, Call: at(from), Return: at(to)}
	}
	set := with(call(history.Set, 0, 1), func(o *history.Op) { o.Value = 2 })
	begin := func(from float64) history.Op { return unknown(call(history.Count, from, from)) }
	ended := with(failed(call(history.Wait, 1, 4)), func(o *history.Op) { o.Note = check.Opened })
	run(t, []planted{
		{"after the last", latch, 0, []history.Op{set, begin(1), call(history.Count, 1, 2), begin(2), call(history.Count, 2, 3), call(history.Wait, 1, 3)}},
		{"before the last", latch, 1, []history.Op{set, begin(1), call(history.Count, 1, 2), begin(4), call(history.Wait, 1, 3)}},
		{"the last may have counted", latch, 0, []history.Op{set, begin(1), begin(2), call(history.Wait, 1, 3)}},
		{"a wait from before it was set", latch, 0, []history.Op{set, call(history.Wait, 0.5, 3)}},
		{"nobody has set it", latch, 0, []history.Op{call(history.Wait, 0.5, 3)}},
		{"given up", latch, 0, []history.Op{set, failed(call(history.Wait, 1, 3))}},
		{"it ended", latch, 1, []history.Op{set, ended}},
		{"it ended with the data", latch, 0, []history.Op{set, with(ended, func(o *history.Op) { o.Return = at(11) })}},
	})
	opens := check.Opens(time.Second)
	counts := []history.Op{set, begin(1), call(history.Count, 1, 2), begin(2), call(history.Count, 2, 3)}
	run(t, []planted{
		{"at once", opens, 0, append(counts, call(history.Wait, 1, 3.5))},
		{"late", opens, 1, append(counts, call(history.Wait, 1, 5))},
		{"given up late", opens, 1, append(counts, failed(call(history.Wait, 1, 5)))},
		{"who came late waited for nothing", opens, 1, append(counts, call(history.Wait, 5, 7))},
		{"not open", opens, 0, append(counts[:3:3], call(history.Wait, 1, 5))},
	})
}

func TestEnded(t *testing.T) {
	c := check.Ended(5 * second)
	run(t, []planted{
		{"not extended", c, 0, []history.Op{got("a", 0, 1, 5, 1), by("op", op(history.Release, "a", 2)), renewed("a", 4, 7)}},
		{"extended", c, 1, []history.Op{got("a", 0, 1, 5, 1), by("op", op(history.Release, "a", 2)), renewed("a", 4, 9)}},
		{"extended, and an operator without an answer", c, 0, []history.Op{got("a", 0, 1, 5, 1), unknown(by("op", op(history.Release, "a", 2))), renewed("a", 4, 9)}},
		{"extended, and the second of two had an answer", c, 1, []history.Op{got("a", 0, 1, 5, 1), unknown(by("op", op(history.Release, "a", 1))), by("op", op(history.Release, "a", 2)), renewed("a", 4, 9)}},
		{"extended while it was being ended", c, 0, []history.Op{got("a", 0, 1, 5, 1), with(by("op", op(history.Release, "a", 2)), func(o *history.Op) { o.Return = at(4) }), renewed("a", 4, 9)}},
		{"extended after that", c, 1, []history.Op{got("a", 0, 1, 5, 1), with(by("op", op(history.Release, "a", 2)), func(o *history.Op) { o.Return = at(4) }), renewed("a", 4, 9.1)}},
		{"never ended", c, 0, []history.Op{got("a", 0, 1, 5, 1), renewed("a", 4, 90)}},
		{"seen in time", check.EndSeen(func(string) time.Duration { return second }), 0, []history.Op{got("a", 0, 1, 9, 1), by("op", op(history.Release, "a", 2)), op(history.Lost, "a", 2.5)}},
		{"seen late", check.EndSeen(func(string) time.Duration { return second }), 1, []history.Op{got("a", 0, 1, 9, 1), by("op", op(history.Release, "a", 2)), op(history.Lost, "a", 3.5)}},
		{"kept", check.Kept(), 0, []history.Op{got("a", 0, 1, 5, 1), op(history.Release, "a", 2)}},
		{"lost", check.Kept(), 1, []history.Op{got("a", 0, 1, 5, 1), op(history.Lost, "a", 2)}},
		{"broken and notified", check.Kept(), 0, []history.Op{got("a", 0, 1, 5, 1), by("op", op(history.Release, "a", 2)), op(history.Lost, "a", 2)}},
	})
}

func TestValues(t *testing.T) {
	w, k := history.Write, check.Counter
	run(t, []planted{
		{"each adds one", check.Updates(), 0, []history.Op{value(w, k, 1, 1, 1), value(w, k, 2, 2, 2), failed(value(w, k, 3, 2, 1)), value(w, k, 4, 3, 3)}},
		{"one is lost", check.Updates(), 1, []history.Op{value(w, k, 1, 1, 1), value(w, k, 2, 2, 2), value(w, k, 3, 2, 1)}},
		{"an unknown one explains a gap", check.Updates(), 0, []history.Op{value(w, k, 1, 1, 1), unknown(value(w, k, 2, 2, 2)), value(w, k, 3, 3, 3)}},
		{"and only one gap", check.Updates(), 1, []history.Op{value(w, k, 1, 1, 1), unknown(value(w, k, 2, 2, 2)), value(w, k, 3, 4, 3)}},
		{"logs too", check.Updates(), 1, []history.Op{value(w, check.Log, 1, 1, 1), value(w, check.Log, 2, 1, 2)}},
		{"stock goes down", check.Sold(), 0, []history.Op{value(w, check.Stock, 1, 1, 1), value(w, check.Stock, 2, 0, 2)}},
		{"sold twice", check.Sold(), 1, []history.Op{value(w, check.Stock, 1, 1, 1), value(w, check.Stock, 2, 1, 2)}},
		{"sold below zero", check.Sold(), 1, []history.Op{value(w, check.Stock, 1, 0, 1), value(w, check.Stock, 2, -1, 2)}},
		{"a whole pair", check.Whole(), 0, []history.Op{value(history.Read, check.Pair, 1, 0, 1), failed(value(history.Read, check.Pair, 1, 3, 1))}},
		{"half a pair", check.Whole(), 1, []history.Op{value(history.Read, check.Pair, 1, 3, 1)}},
	})
}

func TestSlots(t *testing.T) {
	r := history.Run
	run(t, []planted{
		{"one each", check.Slots(), 0, []history.Op{value(r, check.Once, 1, 1, 0), value(r, check.Once, 2, 2, 0)}},
		{"twice done", check.Slots(), 1, []history.Op{value(r, "", 1, 1, 0), value(r, "", 2, 1, 0)}},
		{"failed and done", check.Slots(), 0, []history.Op{failed(value(r, "", 1, 1, 0)), value(r, "", 2, 1, 0)}},
		{"begun twice", check.Slots(), 1, []history.Op{failed(value(r, check.Once, 1, 1, 0)), value(r, check.Once, 2, 1, 0)}},
	})
}

func TestProgress(t *testing.T) {
	waits := func(holder string, call, ret float64) history.Op {
		return with(got(holder, call, ret, 0, 0), func(o *history.Op) { o.Outcome, o.Note = history.Failed, check.Waited })
	}
	apart := func(_ string, earlier, later time.Duration) bool { return later-earlier > at(0.3) }
	run(t, []planted{
		{"in turn", check.Starvation(0, apart), 0, []history.Op{got("a", 0, 1, 2, 1), got("b", 0.5, 2, 3, 2), got("c", 0.6, 3, 4, 3)}},
		{"passed twice", check.Starvation(1, apart), 1, []history.Op{got("a", 0, 5, 9, 3), got("b", 0.5, 2, 3, 1), got("c", 0.6, 3, 4, 2)}},
		{"passed while it waited in vain", check.Starvation(0, apart), 1, []history.Op{waits("a", 0, 5), got("b", 0.5, 2, 3, 1)}},
		{"passed by one without a token", check.Starvation(0, apart), 1, []history.Op{got("a", 0, 5, 9, 3), got("b", 0.5, 2, 3, 0)}},
		{"granted before, and the reply was late", check.Starvation(0, apart), 0, []history.Op{got("a", 0, 5, 9, 1), got("b", 0.5, 2, 3, 2)}},
		{"passed, and the reply was late", check.Starvation(0, apart), 1, []history.Op{got("a", 0, 5, 9, 2), got("b", 0.5, 6, 9, 1)}},
		{"called almost at once", check.Starvation(0, apart), 0, []history.Op{got("a", 0, 5, 9, 2), got("b", 0.2, 2, 9, 1)}},
		{"it gave up almost at once", check.Starvation(0, apart), 0, []history.Op{waits("a", 0, 2.2), got("b", 0.5, 2, 3, 1)}},
		{"it only looked", check.Starvation(0, apart), 0, []history.Op{failed(got("a", 0, 5, 0, 0)), got("b", 0.5, 2, 3, 1)}},
		{"free and taken", check.Deadlock(second), 0, []history.Op{got("a", 0, 1, 9, 1), op(history.Release, "a", 2), got("b", 1, 2.5, 9, 2)}},
		{"free and not taken", check.Deadlock(second), 1, []history.Op{got("a", 0, 1, 9, 1), op(history.Release, "a", 2), got("b", 1, 4, 9, 2)}},
		{"left by the dead", check.Deadlock(second), 0, []history.Op{got("a", 0, 1, 9, 1), op(history.Leave, "a", 2), got("b", 1, 9.5, 19, 2)}},
		{"free and waited for in vain", check.Deadlock(second), 1, []history.Op{waits("a", 1, 9)}},
		{"handed on", check.HandOff(0, second, apart), 0, []history.Op{op(history.Release, "a", 2), got("b", 1, 2.5, 9, 2), got("c", 1, 9, 19, 3)}},
		{"handed on late", check.HandOff(0, second, apart), 1, []history.Op{op(history.Release, "a", 2), got("b", 1, 3.5, 9, 2)}},
		{"handed on late, but its request may have been on its way", check.HandOff(0, second, apart), 0, []history.Op{op(history.Release, "a", 2), got("b", 1.8, 3.5, 9, 2)}},
		{"before all was well", check.HandOff(3*second, second, apart), 0, []history.Op{op(history.Release, "a", 2), got("b", 1, 3.5, 9, 2)}},
		{"nothing left", check.Leftovers(nil), 0, nil},
		{"left", check.Leftovers([]check.Finding{{Resource: "r", What: "a holder"}}), 1, nil},
	})
}
