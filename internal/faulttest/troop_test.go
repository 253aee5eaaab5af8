package faulttest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// keepingData lets Redis keep all that it has confirmed over kills and restarts.
func keepingData() redistest.Option {
	return redistest.WithArgs("--appendonly", "yes", "--appendfsync", "always")
}

// faults is how often each kind of fault has come.
type faults struct{ kills, stops, restarts, wipes int }

func (f faults) String() string {
	text := fmt.Sprintf("%d kills, %d stops, %d restarts", f.kills, f.stops, f.restarts)
	if onMiniredis() {
		text += " (in place of each the server was stopped)"
	}
	if f.wipes > 0 {
		text += fmt.Sprintf(" with data and %d without", f.wipes)
	}
	return text
}

// all tells whether each kind that every test has has come.
func (f faults) all() bool { return min(f.kills, f.stops, f.restarts) > 0 }

// lasting tells whether a test under faults goes on: for its length, and until enough
// has happened to judge, which takes a busy machine longer. The test fails if that does
// not happen.
func (w *world) lasting(length time.Duration, enough func() bool) (goesOn func() bool) {
	end := time.Now().Add(length)
	return func() bool {
		w.t.Helper()
		over := time.Since(end)
		if over > 3*patience {
			w.t.Fatalf("too little to judge has happened in %v and %v more", length, over.Round(time.Second))
		}
		return over < 0 || !enough()
	}
}

// troop is worker processes of one role under faults.
type troop struct {
	w      *world
	role   string
	task   task
	living []*process
	lines  []string // of all processes so far
	faults
}

func (r *troop) recruit(n int) {
	for range n {
		r.join()
	}
}

func (r *troop) join() {
	p := r.w.start(r.role, r.task)
	p.line("ready")
	r.living = append(r.living, p)
}

// drain reads what the living have written, which also keeps their pipes from
// filling up.
func (r *troop) drain() {
	for _, p := range r.living {
		r.lines = append(r.lines, p.said()...)
	}
}

// said is what a process has written and nobody has read.
func (p *process) said() (lines []string) {
	for {
		select {
		case line, more := <-p.lines:
			if !more {
				return lines
			}
			lines = append(lines, line)
		default:
			return lines
		}
	}
}

// kill ends one by SIGKILL and keeps what it wrote.
func (r *troop) kill(i int) {
	p := r.living[i]
	p.kill()
	for line := range p.lines {
		r.lines = append(r.lines, line)
	}
	r.living = slices.Delete(r.living, i, i+1)
}

// suffer lets faults come for a time, and until each kind has come and what was
// written so far is enough to judge, in turns: one is killed and replaced, one is
// stopped and goes on, now and then in time, Redis is killed and started again with
// its data; and a quiet time.
func (r *troop) suffer(length, ttl time.Duration, enough func(lines []string) bool) {
	r.w.t.Helper()
	var kinds []int
	start := clusterStart()
	if start > 0 {
		length *= 3
	}
	for goesOn := r.w.lasting(length, func() bool { return r.faults.all() && enough(r.lines) }); goesOn(); {
		if len(kinds) == 0 {
			kinds = rand.Perm(4)
		}
		kind := kinds[0]
		kinds = kinds[1:]
		i := rand.IntN(len(r.living))
		switch kind {
		case 0:
			r.kill(i)
			r.join()
			r.kills++
		case 1:
			r.w.stop(r.living[i], ttl/4+rand.N(2*ttl))
			r.stops++
		case 2:
			r.w.restart(rand.N(ttl * 3 / 2))
			r.restarts++
			r.w.pass(start)
		}
		r.w.pass(ttl + rand.N(ttl)) // others have their turn
		r.drain()
	}
}

// clusterStart is how long a node of a cluster refuses all work after a start: 2 s,
// which is in its source, and a moment. Without it a test that restarts the server
// again and again would leave nobody a turn.
func clusterStart() time.Duration {
	if os.Getenv(topologyEnv) == "cluster" {
		return 2500 * time.Millisecond
	}
	return 0
}

// dismiss ends all and keeps what they wrote.
func (r *troop) dismiss() {
	r.w.t.Helper()
	for _, p := range r.living {
		_ = p.in.Close() // all at once
	}
	for len(r.living) > 0 {
		r.living[0].finish()
		r.kill(0)
	}
}

// stop stops a process for a time.
func (w *world) stop(p *process, d time.Duration) {
	w.t.Helper()
	p.signal(syscall.SIGSTOP)
	w.pass(d)
	p.signal(syscall.SIGCONT)
}

// restart kills Redis and starts it again after a time; of a quorum, now a minority
// and now all nodes. A store that keeps no data is away for that time and goes on.
func (w *world) restart(away time.Duration) {
	if onMiniredis() {
		w.redis.Pause()
		w.pass(away)
		w.redis.Resume()
		return
	}
	nodes := w.nodes
	if few := w.minority(); len(few) > 0 && rand.IntN(2) == 0 {
		nodes = few
	}
	for _, s := range nodes {
		s.Kill()
	}
	w.pass(away)
	for _, s := range nodes {
		s.Restart()
	}
}

// wipe kills Redis and starts it again without its data.
func (w *world) wipe(away time.Duration) {
	w.t.Helper()
	w.redis.Kill()
	entries, err := os.ReadDir(w.redis.Dir())
	if err != nil || len(entries) == 0 && !onMiniredis() {
		w.t.Fatalf("the data of Redis are %v, %v", entries, err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(w.redis.Dir() + "/" + e.Name()); err != nil {
			w.t.Fatal(err)
		}
	}
	w.pass(away)
	w.redis.Restart()
}
