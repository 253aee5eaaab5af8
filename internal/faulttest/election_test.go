package faulttest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// lead is the role of a candidate. It leads for a short time, again and again,
// and writes down what it relies on: "open TERM TOKEN AT UNTIL" whenever the trust
// window is found to be open (UNTIL is its end as known then), "shut TERM TOKEN AT"
// before it resigns or when it has learned of the loss. TERM identifies the call
// of fn. Instants are nanoseconds of this machine's clock.
func (w *worker) lead() error {
	ctx, stop := w.untilInputEnds()
	defer stop()
	out := bufio.NewWriter(os.Stdout)
	fmt.Println("ready")
	e := w.c.Election(w.Resource, holdfast.WithTTL(w.TTL))
	terms := 0
	err := e.Lead(ctx, strconv.Itoa(os.Getpid()), func(ctx context.Context) error {
		terms++
		id := fmt.Sprint(os.Getpid(), "-", terms)
		l := holdfast.LeaseFromContext(ctx)
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		end := time.After(w.TTL/2 + rand.N(w.TTL*2))
		for last := int64(0); ; {
			now, until := time.Now().UnixNano(), l.Deadline().UnixNano()
			if l.Err() != nil {
				break
			}
			if until != last {
				fmt.Fprintln(out, "open", id, l.Token(), now, until)
				_ = out.Flush()
				last = until
			}
			select {
			case <-tick.C:
				continue
			case <-ctx.Done():
			case <-end:
			}
			break
		}
		fmt.Fprintln(out, "shut", id, l.Token(), time.Now().UnixNano())
		_ = out.Flush()
		return nil
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// term is the time in which a leader may act.
type term struct {
	token    uint64
	from, to int64
}

// termsOf parses the lines of the workers, in any order of workers.
func termsOf(t *testing.T, lines []string) []term {
	t.Helper()
	found := map[string]term{} // by its ID, not by the token, which is judged
	for _, line := range lines {
		var id string
		var token uint64
		var at, until int64
		if _, err := fmt.Sscanf(line, "open %s %d %d %d", &id, &token, &at, &until); err == nil {
			r, known := found[id]
			if !known {
				r = term{token, at, until}
			}
			r.to = until
			found[id] = r
			continue
		}
		if _, err := fmt.Sscanf(line, "shut %s %d %d", &id, &token, &at); err != nil {
			t.Fatalf("a worker wrote %q", line)
		}
		if r, known := found[id]; known {
			r.to = min(r.to, at)
			found[id] = r
		}
	}
	return slices.Collect(maps.Values(found))
}

// candidates are the worker processes of the election.
type candidates struct {
	w     *fixture
	task  task
	alive map[string]*process // by the value with which they campaign
	lines []string            // of all that have ended
}

func (c *candidates) join() {
	p := c.w.start("lead", c.task)
	p.expect("ready")
	c.alive[strconv.Itoa(p.cmd.Process.Pid)] = p
}

// leader waits until one of the candidates leads.
func (c *candidates) leader(e *holdfast.Election) (leads *process, value string) {
	c.w.t.Helper()
	c.w.eventually("there is a leader", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		l, err := e.Leader(ctx)
		leads, value = c.alive[l.Value], l.Value
		return err == nil && leads != nil
	})
	return leads, value
}

// part takes an ended candidate off and keeps what it wrote.
func (c *candidates) end(value string) {
	for line := range c.alive[value].lines {
		c.lines = append(c.lines, line)
	}
	delete(c.alive, value)
}

// drain keeps the pipes of the candidates from filling up.
func (c *candidates) drain() {
	for _, p := range c.alive {
		p.drain(func(line string) { c.lines = append(c.lines, line) })
	}
}

// Six processes campaign while leaders are killed and stopped and Redis is
// killed and started again. By one clock, no two leaders ever had an open trust
// window at once, and tokens increase from leader to leader.
func TestElectionUnderFaults(t *testing.T) {
	// The promise is for a store that keeps its data.
	w := newFixture(t, keepingData())
	length := primitivetest.Soak(t, 15*time.Second)
	c := &candidates{w: w, task: task{Resource: "leader", TTL: 600 * time.Millisecond}, alive: map[string]*process{}}
	for range 6 {
		c.join()
	}
	e := w.client().Election("leader")
	var f faults
	var kinds []int
	fewest := max(2, int(length/(2*time.Second)))
	for goesOn := w.whileLasting(length, func() bool { return f.all() && len(termsOf(t, c.lines)) >= fewest }); goesOn(); kinds = kinds[1:] {
		if len(kinds) == 0 {
			kinds = rand.Perm(4) // each kind comes in every round
		}
		p, value := c.leader(e)
		c.drain()
		switch kinds[0] {
		case 0:
			p.kill()
			c.end(value)
			c.join()
			f.kills++
		case 1:
			p.signal(syscall.SIGSTOP)
			w.elapse(c.task.TTL/4 + rand.N(2*c.task.TTL)) // now and then it goes on in time
			p.signal(syscall.SIGCONT)
			f.stops++
		case 2:
			w.restart(rand.N(c.task.TTL * 3 / 2))
			f.restarts++
		}
		w.elapse(rand.N(c.task.TTL))
	}
	c.leader(e) // and all is well afterwards
	for _, p := range c.alive {
		_ = p.in.Close() // all at once
	}
	for value, p := range c.alive {
		p.finish()
		c.end(value)
	}
	judge(t, termsOf(t, c.lines))
	t.Logf("%v in %v", f, length)
}

// judge checks the terms of all candidates.
func judge(t *testing.T, all []term) {
	t.Helper()
	vacant, err := checkTerms(all)
	if err != nil {
		redistest.Broken(t, "%v", err)
	}
	t.Logf("%d terms, no leader for %v", len(all), vacant.Round(time.Millisecond))
}

// checkTerms returns how long there was no leader, and an error if two led at once or tokens
// did not increase.
func checkTerms(all []term) (vacant time.Duration, err error) {
	slices.SortFunc(all, func(a, b term) int { return cmp.Compare(a.from, b.from) })
	var latest term // the one that leads for longest so far
	for i, b := range all {
		a := latest
		if b.from < a.to {
			err = errors.Join(err, fmt.Errorf("token %d led until %d, token %d from %d: %v too early", a.token, a.to, b.token, b.from, time.Duration(a.to-b.from)))
		}
		if b.token <= a.token {
			err = errors.Join(err, fmt.Errorf("token %d led after token %d", b.token, a.token))
		}
		if i == 0 {
			a.to = b.from
		}
		vacant += max(0, time.Duration(b.from-a.to))
		if b.to > a.to {
			latest = b
		}
	}
	return vacant, err
}

// The check finds two leaders at once, also with one token, and a leader without a token.
func TestJudgeOfTerms(t *testing.T) {
	for name, lines := range map[string][]string{
		"together":                {"open a 5 1000 5000", "open b 7 4999 9000"},
		"together with one token": {"open a 5 1000 5000", "open b 5 2000 6000"},
		"in turn with one token":  {"open a 5 1000 5000", "shut a 5 2000", "open b 5 3000 6000"},
		"without a token":         {"open a 0 1000 5000"},
	} {
		if _, err := checkTerms(termsOf(t, lines)); err == nil {
			t.Errorf("%s was not noticed", name)
		}
	}
	right := []string{"open a 5 1000 5000", "open b 7 5000 9000", "shut b 7 6000", "open a 5 3000 5000", "open c 9 6500 9000"}
	if vacant, err := checkTerms(termsOf(t, right)); err != nil || vacant != 500 {
		t.Errorf("in turn: %v, no leader for %d", err, vacant)
	}
}

// elapse waits: faults need to last.
func (w *fixture) elapse(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.t.Context().Done():
	}
}

// A leader whose network is gone, without any sign of it, steps down before the
// next one leads, and Lead is a candidate again when the network is back.
func TestLeaderCutOff(t *testing.T) {
	w := newFixture(t)
	const ttl = time.Second
	near := w.client()
	p := w.through()
	far := w.client()
	terms, downs := make(chan uint64, 2), make(chan time.Time, 2)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- far.Election("x", holdfast.WithTTL(ttl)).Lead(ctx, "far", func(ctx context.Context) error {
			terms <- holdfast.LeaseFromContext(ctx).Token()
			<-ctx.Done()
			downs <- time.Now()
			return ctx.Err()
		})
	}()
	first := <-terms
	next := make(chan result, 1)
	go func() {
		l, err := near.Election("x", holdfast.WithTTL(ttl)).Campaign(t.Context(), "near")
		next <- result{l, err, time.Now()}
	}()
	w.waiting(near, "x", 1)
	p.Blackhole()
	r := w.granted(next)
	select {
	case down := <-downs:
		if !down.Before(r.at) {
			t.Errorf("stepped down %v after the next leader began", down.Sub(r.at))
		}
	default:
		t.Error("still leads although the next leader has begun")
	}
	if l, err := near.Election("x").Leader(t.Context()); err != nil || l.Value != "near" || l.Token != r.lease.Token() || l.Token <= first {
		t.Errorf("leader %+v, %v after token %d", l, err, first)
	}
	p.Heal()
	w.waiting(near, "x", 1)
	w.release(r.lease)
	select {
	case second := <-terms:
		if second <= r.lease.Token() {
			t.Errorf("token %d after %d", second, r.lease.Token())
		}
	case <-time.After(waitTimeout):
		t.Fatal("it does not lead again")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Lead: %v", err)
	}
}

// An observer sees every leader that stays, over a restart of Redis as well.
func TestObserveOverRestart(t *testing.T) {
	w := newFixture(t, redistest.WithAppendOnly())
	c := w.client()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	saw, ended := make(chan holdfast.Leader, 10), make(chan error, 1)
	go func() {
		defer close(ended)
		for l, err := range c.Election("x").Observe(ctx) {
			if err != nil {
				ended <- err
				return
			}
			saw <- l
		}
	}()
	expect := func(value string) {
		t.Helper()
		select {
		case l := <-saw:
			if l.Value != value || (l.Token == 0) != (value == "") {
				t.Errorf("saw %+v, want %q", l, value)
			}
		case err := <-ended:
			t.Fatalf("ended: %v", err)
		case <-time.After(waitTimeout):
			t.Fatalf("did not see %q", value)
		}
	}
	expect("")
	// A master of a cluster refuses writes for 2 s after its start
	// (CLUSTER_WRITABLE_DELAY): a lease of 3 s, whose last renewal may be 1 s old at
	// the kill, does not outlive that.
	const ttl = 6 * time.Second
	for _, value := range []string{"a", "b"} {
		l, err := w.client().Election("x", holdfast.WithTTL(ttl)).Campaign(ctx, value)
		if err != nil {
			t.Fatal(err)
		}
		expect(value)
		w.redis.Kill()
		w.redis.Restart()
		w.waitRenewal(l)
		w.release(l)
		expect("")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
