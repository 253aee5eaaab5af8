package faulttest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// countDown is the role of a node that counts down once for each line of input,
// and says so.
func (w *worker) countDown() error {
	l := w.c.Latch(w.Resource)
	fmt.Println("ready")
	for w.in.Scan() {
		if err := l.CountDown(context.Background()); err != nil {
			return err
		}
		fmt.Println("counted", w.in.Text())
	}
	return nil
}

// waitLatch starts a Wait in a goroutine and returns where its result comes.
func waitLatch(ctx context.Context, l *holdfast.Latch) <-chan result {
	ch := make(chan result, 1)
	go func() {
		err := l.Wait(ctx)
		ch <- result{nil, err, time.Now()}
	}()
	return ch
}

// Processes count a latch down while they are killed between and in their counts,
// and Redis is killed and started again with its data: nothing confirmed is lost,
// nothing counts twice, and the waiters go on at the last one.
func TestLatchUnderFaults(t *testing.T) {
	w := newFixture(t, redistest.WithArgs("--appendonly", "yes", "--appendfsync", "always"))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tasks := 58
	if sizeOfQuorum() > 1 {
		tasks = redistest.Scale(22, 58) // what a killed process has begun keeps others off for seconds there
	}
	l := w.client().Latch("parts")
	if set, err := l.TrySet(ctx, tasks); !set || err != nil {
		t.Fatal(set, err)
	}
	var waiters []<-chan result
	for range 4 {
		waiters = append(waiters, waitLatch(ctx, w.client().Latch("parts")))
	}
	begin := func() *process {
		p := w.start("countdown", task{Resource: "parts"})
		p.expect("ready")
		return p
	}
	workers := []*process{begin(), begin(), begin()}
	kills, unknown, restarts := 0, 0, 0
	for n := 0; n < tasks-1; {
		before, err := l.Count(ctx)
		if err != nil || before != tasks-n {
			t.Fatalf("%d counted; the count is %d, %v", n, before, err)
		}
		k := rand.N(len(workers))
		switch p := workers[k]; n % 10 {
		case 3: // killed in its count, or before, or after
			p.send("last words")
			w.elapse(rand.N(2 * time.Millisecond))
			p.kill()
			workers[k] = begin()
			kills++
			after, err := l.Count(ctx)
			if err != nil || before-after > 1 || after > before {
				t.Fatalf("one count made %d of %d, %v", after, before, err)
			}
			if after < before {
				unknown++
				n++
				continue
			}
		case 7: // Redis goes while all count
			for i, p := range workers {
				p.send(fmt.Sprint("in a restart ", i))
			}
			w.elapse(rand.N(2 * time.Millisecond))
			w.restart(rand.N(300 * time.Millisecond))
			restarts++
			for _, p := range workers {
				p.expect("counted")
			}
			n += len(workers)
			continue
		}
		workers[k].send(fmt.Sprint(n))
		workers[k].expect("counted")
		n++
	}
	for _, ch := range waiters {
		select {
		case r := <-ch:
			redistest.Broken(t, "a wait ended before the last count: %v", r.err)
		default:
		}
	}
	left, err := l.Count(ctx)
	if left != 1 || err != nil {
		t.Fatalf("the count is %d, %v", left, err)
	}
	workers[0].send("the last")
	workers[0].expect("counted")
	for _, ch := range waiters {
		if r := w.get(ch); r.err != nil {
			t.Error(r.err)
		}
	}
	for _, p := range workers {
		p.finish()
	}
	w.forgetUnits("parts")
	t.Logf("%d kills, of which %d had counted; %d restarts", kills, unknown, restarts)
	if kills == 0 || restarts == 0 {
		t.Error("a kind of fault never happened")
	}
}

// forgetUnits breaks what was counted, which by design lives as long as the latch
// would have, so that nothing else can hide behind it. On a quorum a node may also have
// what a killed process had begun to count.
func (w *fixture) forgetUnits(latch string) {
	w.t.Helper()
	ctx := context.Background()
	for _, node := range w.stores {
		for s, err := range node.List(ctx, holdfast.DefaultPrefix, latch+"/latch/*") {
			if err != nil {
				w.t.Fatal(err)
			}
			for _, h := range s.Holders {
				var gone *engine.NotHeldError
				if err := node.Break(ctx, s.Resource, engine.Break{ID: h.ID, Force: true}); err != nil && !errors.As(err, &gone) {
					w.t.Fatal(err)
				}
			}
		}
	}
}
