package faulttest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Four processes of eight goroutines add to a counter by read-then-write, while
// one of the processes is killed and started again all along. The counter equals
// the number of turns, to the last one.
func TestExclusionUnderLoad(t *testing.T) {
	w := newFixture(t)
	const turns = 20_000
	tk := task{Resource: "counter", TTL: 500 * time.Millisecond, Callers: 8, Counter: "counter:value"}
	var steady []*process
	for range 3 {
		p := w.start("count", tk)
		p.expect("ready")
		steady = append(steady, p)
	}
	rdb := w.redis.Client()
	kills := 0
	deadline := time.Now().Add(2 * time.Minute)
	for n := 0; n < turns; {
		victim := w.start("count", tk)
		victim.expect("ready")
		before := n
		w.eventually("many turns more", func() bool {
			n, _ = rdb.Get(t.Context(), turnsOf(tk.Counter)).Int()
			return n >= before+800
		})
		victim.kill()
		kills++
		if time.Now().After(deadline) {
			t.Fatalf("%d turns in two minutes", n)
		}
	}
	for _, p := range steady {
		p.finish()
	}
	value, err := rdb.Get(t.Context(), tk.Counter).Int()
	if err != nil {
		t.Fatal(err)
	}
	counted, err := rdb.Get(t.Context(), turnsOf(tk.Counter)).Int()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d turns, %d kills", counted, kills)
	if value != counted || counted < turns {
		redistest.Broken(t, "counter %d after %d turns", value, counted)
	}
	if kills < 10 {
		t.Errorf("only %d kills: the fault was hardly there", kills)
	}
}

// fair checks that each caller had its share. The span may begin and end in the middle of a round, which is worth two turns.
func fair(t *testing.T, tallies []tally) {
	t.Helper()
	total, least, most := 0, tallies[0].Turns, tallies[0].Turns
	var longest time.Duration
	var medians []time.Duration
	for _, y := range tallies {
		total += y.Turns
		least, most = min(least, y.Turns), max(most, y.Turns)
		longest = max(longest, y.MaxWait)
		medians = append(medians, y.WaitsP50)
	}
	slices.Sort(medians)
	median := medians[len(medians)/2]
	share := float64(total) / float64(len(tallies))
	t.Logf("%d turns by %d callers; worst %.3f, best %.3f of its share; median wait %v, longest %v (%.0f×)",
		total, len(tallies), float64(least)/share, float64(most)/share, median, longest,
		float64(longest)/float64(median))
	if float64(least) < 0.9*share-2 || float64(most) > 1.1*share+2 {
		t.Errorf("a caller is more than 10%% off its share")
	}
}

// 64 goroutines of one process on one resource. The work of a turn is a read and
// a write, as in the load test above.
func TestFairnessInOneProcess(t *testing.T) {
	w := newFixture(t)
	one := &worker{task: task{Counter: "counter"}, rdb: w.redis.Client()}
	tallies, err := takeTurns(w.client().Mutex("hot"), 64, time.Now(), 3*time.Second, one.increment)
	if err != nil {
		t.Fatal(err)
	}
	fair(t, tallies)
	w.exact("counter", tallies)
}

// 8 processes of 8 goroutines on one resource, with the same work. The callers of a process have equal shares, and so do processes, of
// slices: one is a round or some milliseconds, so on a slow machine it has fewer turns (those are a bar of make bench).
func TestFairnessBetweenProcesses(t *testing.T) {
	w := newFixture(t)
	const callers = 8
	tallies := w.turnsOf(8, task{Resource: "hot", TTL: 5 * time.Second, Callers: callers, For: 4 * time.Second, Counter: "counter"})
	var slicesOf []int
	for some := range slices.Chunk(tallies, callers) {
		fair(t, some)
		slicesOf = append(slicesOf, some[0].Slices)
	}
	t.Logf("slices of the processes: %v", slicesOf)
	if least, most := slices.Min(slicesOf), slices.Max(slicesOf); least < 20 || most-least > callers {
		t.Errorf("slices of the processes: %v", slicesOf)
	}
	w.exact("counter", tallies)
}

// exact checks a counter that every turn has read and written. Turns that ended
// after the time was up are not in the tallies, at most one a caller.
func (w *fixture) exact(counter string, tallies []tally) {
	w.t.Helper()
	n, err := w.redis.Client().Get(w.t.Context(), counter).Int()
	if err != nil {
		w.t.Fatal(err)
	}
	turns := 0
	for _, y := range tallies {
		turns += y.Turns
	}
	if n < turns || n > turns+len(tallies) {
		redistest.Broken(w.t, "counter %d after %d turns", n, turns)
	}
}

// turnsOf runs the same task in several processes, all in the same span of time: one
// that began sooner or ended later would have fewer rivals, and more turns.
func (w *fixture) turnsOf(processes int, tk task) []tally {
	w.t.Helper()
	var ps []*process
	for range processes {
		p := w.start("turns", tk)
		p.expect("ready")
		ps = append(ps, p)
	}
	start := fmt.Sprint(time.Now().Add(300 * time.Millisecond).UnixNano()) // all have read it by then
	for _, p := range ps {
		p.send(start)
	}
	var all []tally
	for _, p := range ps {
		var some []tally
		if err := json.Unmarshal([]byte(p.expect("tally")), &some); err != nil {
			w.t.Fatal(err)
		}
		all = append(all, some...)
		p.finish()
	}
	return all
}

// Without tenure the order between processes is first come, first served,
// exactly.
func TestFirstComeFirstServed(t *testing.T) {
	w := newFixture(t)
	const waiters = 24
	clients := []*holdfast.Client{w.client(), w.client(), w.client(), w.client()}
	l := w.lock(clients[0].Mutex("stock:1").Lock)
	type entry struct {
		n int
		l *holdfast.Lease
		e error
	}
	entered := make(chan entry, waiters)
	for n := range waiters {
		c := clients[n%len(clients)]
		go func() {
			l, err := c.Mutex("stock:1", holdfast.WithoutTenure()).Lock(context.Background())
			entered <- entry{n, l, err}
		}()
		// The next one comes when this one is in the queue.
		w.waiting(clients[0], "stock:1", n+1)
	}
	token := l.Token()
	w.release(l)
	for n := range waiters {
		e := <-entered
		if e.e != nil || e.n != n {
			t.Fatalf("entry %d went to waiter %d, %v", n, e.n, e.e)
		}
		if e.l.Token() <= token {
			redistest.Broken(t, "token %d after %d", e.l.Token(), token)
		}
		token = e.l.Token()
		w.release(e.l)
	}
}

// The same with a process for each waiter.
func TestFirstComeFirstServedAcrossProcesses(t *testing.T) {
	w := newFixture(t)
	const waiters = 8
	c := w.client()
	l := w.lock(c.Mutex("stock:1", holdfast.WithoutTenure()).Lock)
	var line []*process
	for n := range waiters {
		p := w.start("wait", task{Resource: "stock:1", TTL: 15 * time.Second, Strict: true})
		p.expect("waiting")
		// The next one comes when this one is in the queue.
		w.waiting(c, "stock:1", n+1)
		line = append(line, p)
	}
	last := l.Token()
	w.release(l)
	for n, p := range line {
		// A caller that passed this one would hold until it is notified, with a lower token.
		token, err := strconv.ParseUint(p.expect("held"), 10, 64)
		if err != nil || token <= last {
			t.Fatalf("process %d entered with token %d after %d, %v", n, token, last, err)
		}
		last = token
		p.finish() // the end of its input makes it release
	}
}
