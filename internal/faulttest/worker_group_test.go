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

// keepingData has Redis keep all that it has confirmed over kills and restarts.
func keepingData() redistest.Option {
	return redistest.WithArgs("--appendonly", "yes", "--appendfsync", "always")
}

// faults counts the faults of each kind.
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

// all reports whether each kind of fault that every test injects has occurred.
func (f faults) all() bool { return min(f.kills, f.stops, f.restarts) > 0 }

// whileLasting reports whether a test under faults continues: for its length, and until
// enough has happened to judge, which takes a busy machine longer. The test fails if that
// does not happen.
func (w *fixture) whileLasting(length time.Duration, enough func() bool) (goesOn func() bool) {
	end := time.Now().Add(length)
	return func() bool {
		w.t.Helper()
		over := time.Since(end)
		if over > 3*waitTimeout {
			w.t.Fatalf("too little to judge has happened in %v and %v more", length, over.Round(time.Second))
		}
		return over < 0 || !enough()
	}
}

// workerGroup is worker processes of one role under faults.
type workerGroup struct {
	w     *fixture
	role  string
	task  task
	alive []*process
	lines []string // of all processes so far
	faults
}

func (r *workerGroup) startAll(n int) {
	for range n {
		r.start()
	}
}

func (r *workerGroup) start() {
	p := r.w.start(r.role, r.task)
	p.expect("ready")
	r.alive = append(r.alive, p)
}

// drain reads what the processes have written, which also keeps their pipes from filling
// up.
func (r *workerGroup) drain() {
	for _, p := range r.alive {
		r.lines = append(r.lines, p.unread()...)
	}
}

// unread returns the lines that a process has written and the test has not read.
func (p *process) unread() (lines []string) {
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

// kill ends one by SIGKILL and keeps its lines.
func (r *workerGroup) kill(i int) {
	p := r.alive[i]
	p.kill()
	for line := range p.lines {
		r.lines = append(r.lines, line)
	}
	r.alive = slices.Delete(r.alive, i, i+1)
}

// injectFaults injects faults for a time, and until each kind has occurred and the lines
// so far are enough to judge. The kinds take turns: a process is killed and replaced, a
// process is stopped and continued, sometimes within its TTL, Redis is killed and started
// again with its data, and nothing.
func (r *workerGroup) injectFaults(length, ttl time.Duration, enough func(lines []string) bool) {
	r.w.t.Helper()
	var kinds []int
	start := clusterStart()
	if start > 0 {
		length *= 3
	}
	for goesOn := r.w.whileLasting(length, func() bool { return r.faults.all() && enough(r.lines) }); goesOn(); {
		if len(kinds) == 0 {
			kinds = rand.Perm(4)
		}
		kind := kinds[0]
		kinds = kinds[1:]
		i := rand.IntN(len(r.alive))
		switch kind {
		case 0:
			r.kill(i)
			r.start()
			r.kills++
		case 1:
			r.w.stop(r.alive[i], ttl/4+rand.N(2*ttl))
			r.stops++
		case 2:
			r.w.restart(rand.N(ttl * 3 / 2))
			r.restarts++
			r.w.elapse(start)
		}
		r.w.elapse(ttl + rand.N(ttl)) // the other processes take turns
		r.drain()
	}
}

// clusterStart is how long a node of a cluster refuses all work after a start: 2 s,
// which is in its source, and a moment. Without this pause a test
// that keeps restarting the server would leave no time for a grant.
func clusterStart() time.Duration {
	if os.Getenv(topologyEnv) == "cluster" {
		return 2500 * time.Millisecond
	}
	return 0
}

// finishAll ends all processes and keeps their lines.
func (r *workerGroup) finishAll() {
	r.w.t.Helper()
	for _, p := range r.alive {
		_ = p.in.Close() // all at once
	}
	for len(r.alive) > 0 {
		r.alive[0].finish()
		r.kill(0)
	}
}

// stop stops a process for a time.
func (w *fixture) stop(p *process, d time.Duration) {
	w.t.Helper()
	p.signal(syscall.SIGSTOP)
	w.elapse(d)
	p.signal(syscall.SIGCONT)
}

// restart kills Redis and starts it again after a time; of a quorum, now a minority
// and now all nodes. A store that keeps no data is only paused.
func (w *fixture) restart(away time.Duration) {
	if onMiniredis() {
		w.redis.Pause()
		w.elapse(away)
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
	w.elapse(away)
	for _, s := range nodes {
		s.Restart()
	}
}

// wipe kills Redis and starts it again without its data.
func (w *fixture) wipe(away time.Duration) {
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
	w.elapse(away)
	w.redis.Restart()
}
