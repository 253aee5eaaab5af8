package faulttest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
)

// await is the role of a node that waits for the latch, once for each line of input,
// and says how that ended: "went LINE", or "ended LINE" if the latch did.
func (w *worker) await() error {
	l := w.c.Latch(w.Resource)
	fmt.Println("ready")
	for w.in.Scan() {
		switch err := l.Wait(context.Background()); {
		case err == nil:
			fmt.Println("went", w.in.Text())
		case errors.Is(err, holdfast.ErrLatchEnded):
			fmt.Println("ended", w.in.Text())
		default:
			return err
		}
	}
	return nil
}

// latchRounds is a latch that is set and counted down in rounds by processes, of which
// some wait and some count.
type latchRounds struct {
	w       *fixture
	c       *holdfast.Client
	latch   *holdfast.Latch
	waiters *workerGroup
	workers *workerGroup
	kinds   []int
	faults
	played, opened, ended int
}

const (
	roundSize    = 6
	roundWaiters = 3
)

// begin sets the latch and has all waiters wait for it.
func (r *latchRounds) begin() {
	r.w.t.Helper()
	ctx, cancel := context.WithTimeout(r.w.t.Context(), waitTimeout)
	defer cancel()
	if set, err := r.latch.TrySet(ctx, roundSize); !set || err != nil {
		r.w.t.Fatalf("round %d: %v, %v", r.played, set, err)
	}
	for _, p := range r.waiters.alive {
		p.send(fmt.Sprint(r.played))
	}
	r.awaitWaiters()
}

// awaitWaiters waits until every live waiter is in the queue. A count is not enough: one
// that was killed stays for three seconds, in the place of one that is not there yet.
func (r *latchRounds) awaitWaiters() {
	r.w.t.Helper()
	r.w.eventually("all live waiters are in the queue", func() bool {
		s, err := r.c.Snapshot(context.Background(), r.waiters.task.Resource)
		if err != nil {
			return false
		}
		waits := map[int]bool{}
		for _, one := range s.Waiters {
			waits[one.PID] = true
		}
		for _, p := range r.waiters.alive {
			if !waits[p.cmd.Process.Pid] {
				return false
			}
		}
		return true
	})
}

// requireClosed checks that no wait has returned, and that the count is right after so
// many counts, of which some may not have arrived.
func (r *latchRounds) requireClosed(started, confirmed int) {
	r.w.t.Helper()
	if len(r.waiters.lines) > 0 {
		r.w.t.Fatalf("round %d: a dead waiter printed %q", r.played, r.waiters.lines)
	}
	for _, p := range r.waiters.alive {
		if lines := p.unread(); len(lines) > 0 {
			r.w.t.Fatalf("round %d: %q after %d of %d counts", r.played, lines, started, roundSize)
		}
	}
	if n := r.count(); n < roundSize-started || n > roundSize-confirmed {
		r.w.t.Fatalf("round %d: the count is %d after %d of %d, %d confirmed", r.played, n, started, roundSize, confirmed)
	}
}

func (r *latchRounds) count() int {
	r.w.t.Helper()
	ctx, cancel := context.WithTimeout(r.w.t.Context(), waitTimeout)
	defer cancel()
	n, err := r.latch.Count(ctx)
	if err != nil {
		r.w.t.Fatal(err)
	}
	return n
}

// countOne has a worker count during a fault, and reports whether it has confirmed.
func (r *latchRounds) countOne(kind int) (confirmed bool) {
	r.w.t.Helper()
	k := rand.N(len(r.workers.alive))
	p := r.workers.alive[k]
	p.send("one")
	r.w.elapse(rand.N(2 * time.Millisecond))
	switch kind {
	case 0: // in its count, or before, or after
		r.workers.kill(k)
		r.workers.start()
		r.kills++
		return false
	case 1:
		r.w.stop(p, rand.N(time.Second))
		r.stops++
	case 2:
		q := r.waiters.alive[rand.N(roundWaiters)]
		r.w.stop(q, rand.N(time.Second))
		r.stops++
	case 3:
		r.w.restart(rand.N(300 * time.Millisecond))
		r.restarts++
	case 4: // its replacement waits for the same round
		r.waiters.kill(rand.N(roundWaiters))
		r.waiters.start()
		r.waiters.alive[roundWaiters-1].send(fmt.Sprint(r.played))
		r.kills++
	}
	p.expect("counted")
	return true
}

// fault returns the next kind of fault, each in turn, or none.
func (r *latchRounds) fault() int {
	if len(r.kinds) == 0 {
		r.kinds = rand.Perm(7)
	}
	kind := r.kinds[0]
	r.kinds = r.kinds[1:]
	return kind
}

// playRound is one round: faults occur during all counts but the last. Then, in a wiped
// round, Redis loses its data; otherwise the last count is made.
func (r *latchRounds) playRound(wiped bool) {
	r.w.t.Helper()
	r.begin()
	confirmed := 0
	for started := 1; started < roundSize; started++ {
		if r.countOne(r.fault()) {
			confirmed++
		}
		r.requireClosed(started, confirmed)
	}
	r.awaitWaiters()
	word := "went"
	if wiped {
		word = "ended"
		r.w.wipe(rand.N(300 * time.Millisecond))
		r.wipes++
		r.ended++
	} else {
		// The killed workers have counted or not.
		for n := r.count(); n > 0; n = r.count() {
			p := r.workers.alive[rand.N(len(r.workers.alive))]
			p.send("one of the last")
			if rand.N(3) == 0 { // the process that would wake the others is stopped
				r.w.stop(p, rand.N(time.Second))
				r.stops++
			}
			p.expect("counted")
		}
		r.opened++
	}
	r.requireReleased(word)
}

// requireReleased waits until all waits have returned as they must.
func (r *latchRounds) requireReleased(word string) {
	r.w.t.Helper()
	for _, p := range r.waiters.alive {
		if got := p.expect(word); strings.TrimSpace(got) != fmt.Sprint(r.played) {
			r.w.t.Fatalf("round %d: %s %s", r.played, word, got)
		}
	}
	r.played++
}

// Processes wait for a latch and others count it down, round after round, while
// both are killed and stopped and Redis is killed and started again, with its data
// and, now and then, without. No wait returns before the last count has
// begun, every wait returns soon after it, and the loss of a latch's data ends all waits:
// none hangs.
func TestLatchRoundsUnderFaults(t *testing.T) {
	w := newFixture(t, keepingData())
	length := primitivetest.Soak(t, 8*time.Second)
	c := w.client()
	r := &latchRounds{
		w: w, c: c, latch: c.Latch("gate"),
		waiters: &workerGroup{w: w, role: "await", task: task{Resource: "gate"}},
		workers: &workerGroup{w: w, role: "countdown", task: task{Resource: "gate"}},
	}
	r.waiters.startAll(roundWaiters)
	r.workers.startAll(3)
	for start := time.Now(); time.Since(start) < length || r.played < 3; {
		r.playRound(r.played%3 == 2)
	}
	r.waiters.finishAll()
	r.workers.finishAll()
	w.forgetUnits("gate")
	t.Logf("%d rounds: %d opened, %d ended; %v in %v", r.played, r.opened, r.ended, r.faults, length)
	if min(r.kills, r.stops, r.restarts, r.wipes) == 0 {
		t.Error("a kind of fault never happened")
	}
}
