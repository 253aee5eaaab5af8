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

// rounds is a latch that is set and counted down again and again by processes, of
// which some wait and some count.
type rounds struct {
	w       *world
	c       *holdfast.Client
	latch   *holdfast.Latch
	waiters *troop
	workers *troop
	kinds   []int
	faults
	played, opened, ended int
}

const (
	roundSize    = 6
	roundWaiters = 3
)

// begin sets the latch and lets all wait for it.
func (r *rounds) begin() {
	r.w.t.Helper()
	ctx, cancel := context.WithTimeout(r.w.t.Context(), patience)
	defer cancel()
	if set, err := r.latch.TrySet(ctx, roundSize); !set || err != nil {
		r.w.t.Fatalf("round %d: %v, %v", r.played, set, err)
	}
	for _, p := range r.waiters.living {
		p.say(fmt.Sprint(r.played))
	}
	r.gathered()
}

// gathered waits until every living waiter stands in the queue. To count them would
// not do: one that was killed stands there for three seconds more, in the place of
// the one that is still on its way.
func (r *rounds) gathered() {
	r.w.t.Helper()
	r.w.eventually("all who live are in the queue", func() bool {
		s, err := r.c.Snapshot(context.Background(), r.waiters.task.Resource)
		if err != nil {
			return false
		}
		waits := map[int]bool{}
		for _, one := range s.Waiters {
			waits[one.PID] = true
		}
		for _, p := range r.waiters.living {
			if !waits[p.cmd.Process.Pid] {
				return false
			}
		}
		return true
	})
}

// closed checks that nobody has gone on, or been sent away, and that the count is
// what it must be after so many counts, of which some may not have come through.
func (r *rounds) closed(started, confirmed int) {
	r.w.t.Helper()
	if len(r.waiters.lines) > 0 {
		r.w.t.Fatalf("round %d: one that is dead said %q", r.played, r.waiters.lines)
	}
	for _, p := range r.waiters.living {
		if lines := p.said(); len(lines) > 0 {
			r.w.t.Fatalf("round %d: %q after %d of %d counts", r.played, lines, started, roundSize)
		}
	}
	if n := r.count(); n < roundSize-started || n > roundSize-confirmed {
		r.w.t.Fatalf("round %d: the count is %d after %d of %d, %d confirmed", r.played, n, started, roundSize, confirmed)
	}
}

func (r *rounds) count() int {
	r.w.t.Helper()
	ctx, cancel := context.WithTimeout(r.w.t.Context(), patience)
	defer cancel()
	n, err := r.latch.Count(ctx)
	if err != nil {
		r.w.t.Fatal(err)
	}
	return n
}

// one lets a worker count while a fault comes, and tells whether it has confirmed.
func (r *rounds) one(kind int) (confirmed bool) {
	r.w.t.Helper()
	k := rand.N(len(r.workers.living))
	p := r.workers.living[k]
	p.say("one")
	r.w.pass(rand.N(2 * time.Millisecond))
	switch kind {
	case 0: // in its count, or before, or after
		r.workers.kill(k)
		r.workers.join()
		r.kills++
		return false
	case 1:
		r.w.stop(p, rand.N(time.Second))
		r.stops++
	case 2:
		q := r.waiters.living[rand.N(roundWaiters)]
		r.w.stop(q, rand.N(time.Second))
		r.stops++
	case 3:
		r.w.restart(rand.N(300 * time.Millisecond))
		r.restarts++
	case 4: // the one that comes in its place waits for the same round
		r.waiters.kill(rand.N(roundWaiters))
		r.waiters.join()
		r.waiters.living[roundWaiters-1].say(fmt.Sprint(r.played))
		r.kills++
	}
	p.line("counted")
	return true
}

// fault is the next kind, of which each comes in turns; and none.
func (r *rounds) fault() int {
	if len(r.kinds) == 0 {
		r.kinds = rand.Perm(7)
	}
	kind := r.kinds[0]
	r.kinds = r.kinds[1:]
	return kind
}

// play is one round: faults come while all but one is counted, and then, in a wiped
// round, Redis loses its data; else the last ones are counted.
func (r *rounds) play(wiped bool) {
	r.w.t.Helper()
	r.begin()
	confirmed := 0
	for started := 1; started < roundSize; started++ {
		if r.one(r.fault()) {
			confirmed++
		}
		r.closed(started, confirmed)
	}
	r.gathered()
	word := "went"
	if wiped {
		word = "ended"
		r.w.wipe(rand.N(300 * time.Millisecond))
		r.wipes++
		r.ended++
	} else {
		// Those that were killed have counted or not.
		for n := r.count(); n > 0; n = r.count() {
			p := r.workers.living[rand.N(len(r.workers.living))]
			p.say("one of the last")
			if rand.N(3) == 0 { // whoever should tell the others may not do so for a while
				r.w.stop(p, rand.N(time.Second))
				r.stops++
			}
			p.line("counted")
		}
		r.opened++
	}
	r.after(word)
}

// after waits until all that wait have gone on as they must.
func (r *rounds) after(word string) {
	r.w.t.Helper()
	for _, p := range r.waiters.living {
		if got := p.line(word); strings.TrimSpace(got) != fmt.Sprint(r.played) {
			r.w.t.Fatalf("round %d: %s %s", r.played, word, got)
		}
	}
	r.played++
}

// Processes wait for a latch and others count it down, round after round, while
// both are killed and stopped and Redis is killed and started again, with its data
// and, now and then, without. Nobody goes on before the last count has begun,
// everybody goes on soon after it, and a latch whose data are lost sends all who
// wait away: nobody hangs.
func TestLatchRoundsUnderFaults(t *testing.T) {
	w := newWorld(t, keepingData())
	length := primitivetest.Soak(t, 8*time.Second)
	c := w.client()
	r := &rounds{
		w: w, c: c, latch: c.Latch("gate"),
		waiters: &troop{w: w, role: "await", task: task{Resource: "gate"}},
		workers: &troop{w: w, role: "countdown", task: task{Resource: "gate"}},
	}
	r.waiters.recruit(roundWaiters)
	r.workers.recruit(3)
	for start := time.Now(); time.Since(start) < length || r.played < 3; {
		r.play(r.played%3 == 2)
	}
	r.waiters.dismiss()
	r.workers.dismiss()
	w.forgetUnits("gate")
	t.Logf("%d rounds: %d opened, %d ended; %v in %v", r.played, r.opened, r.ended, r.faults, length)
	if min(r.kills, r.stops, r.restarts, r.wipes) == 0 {
		t.Error("a kind of fault never happened")
	}
}
