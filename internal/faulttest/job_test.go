package faulttest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// period is that of the job under test; Strict in the task chooses RetryFailed.
const period = time.Second

// outcome writes down how runs end: "began SLOT PID", and "done SLOT" when fn
// returned nil and the store has confirmed the release with the mark.
type outcome struct {
	mu   sync.Mutex
	out  *bufio.Writer
	fine map[uint64]bool
}

func (o *outcome) say(words ...any) {
	fmt.Fprintln(o.out, words...)
	_ = o.out.Flush()
}

// Release is the hook.
func (o *outcome) Release(e holdfast.ReleaseEvent) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e.Err == nil && e.HandOff != holdfast.HandOffClose && o.fine[e.Token] {
		o.say("done", e.Resource)
	}
}

// serve is the role of a node that serves a job. Its work takes up to half a
// period and fails now and then.
func (w *worker) serve() error {
	ctx, stop := w.untilInputEnds()
	defer stop()
	o := &outcome{out: bufio.NewWriter(os.Stdout), fine: map[uint64]bool{}}
	c, err := holdfast.New(goredis.New(w.rdb), holdfast.WithHooks(o))
	if err != nil {
		return err
	}
	defer c.Close()
	opts := []holdfast.JobOption{holdfast.Every(period), holdfast.WithTTL(w.TTL)}
	if w.Strict {
		opts = append(opts, holdfast.RetryFailed())
	}
	fmt.Println("ready")
	err = c.Job(w.Resource, opts...).Serve(ctx, func(ctx context.Context) error {
		l := holdfast.LeaseFromContext(ctx)
		o.mu.Lock()
		for slot := range l.Tokens() {
			o.say("began", slot, os.Getpid())
		}
		o.mu.Unlock()
		select {
		case <-time.After(rand.N(period / 2)):
		case <-ctx.Done():
			return ctx.Err()
		}
		if rand.N(5) == 0 {
			return errors.New("it failed")
		}
		o.mu.Lock()
		o.fine[l.Token()] = true
		o.mu.Unlock()
		return nil
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// nodes are the worker processes that serve the job.
type nodes struct {
	w     *fixture
	task  task
	alive map[string]*process // by process ID
	began map[string]int      // runs by slot
	done  map[string]int
	fresh []string // process IDs that began a run since the last look
}

func (n *nodes) join() {
	p := n.w.start("serve", n.task)
	p.expect("ready")
	n.alive[strconv.Itoa(p.cmd.Process.Pid)] = p
}

func (n *nodes) read(line string) {
	n.w.t.Helper()
	switch f := strings.Fields(line); {
	case len(f) == 3 && f[0] == "began":
		n.began[f[1]]++
		n.fresh = append(n.fresh, f[2])
	case len(f) == 2 && f[0] == "done":
		n.done[f[1]]++
	default:
		n.w.t.Fatalf("a worker wrote %q", line)
	}
}

// drain reads what the processes have written.
func (n *nodes) drain() {
	for _, p := range n.alive {
		p.drain(n.read)
	}
}

// running waits until a run begins, and returns its process.
func (n *nodes) running() string {
	n.w.t.Helper()
	n.fresh = nil
	value := ""
	n.w.eventually("a run begins", func() bool {
		n.drain()
		for _, pid := range n.fresh {
			if n.alive[pid] != nil {
				value = pid
			}
		}
		return value != ""
	})
	return value
}

func (n *nodes) end(value string) {
	for line := range n.alive[value].lines {
		n.read(line)
	}
	delete(n.alive, value)
}

// Six processes whose starts are skewed serve one job while those that run are
// killed and stopped in mid-work, and Redis is killed and started again with its
// data. No slot succeeds twice; without RetryFailed, none even begins twice. A soak
// has 100 slots at least.
func TestJobUnderFaults(t *testing.T) {
	for _, retry := range []bool{false, true} {
		t.Run(fmt.Sprintf("retry=%v", retry), func(t *testing.T) { jobUnderFaults(t, retry) })
	}
}

func jobUnderFaults(t *testing.T, retry bool) {
	w := newFixture(t, keepingData())
	const short = 12 * time.Second
	length := primitivetest.Soak(t, short)
	if length != short {
		length = max(length, 101*period)
	}
	n := &nodes{
		w: w, task: task{Resource: "report", TTL: 300 * time.Millisecond, Strict: retry},
		alive: map[string]*process{}, began: map[string]int{}, done: map[string]int{},
	}
	for range 6 {
		n.join()
		w.elapse(rand.N(period / 3)) // skewed starts
	}
	f := n.injectFaults(length)
	for _, p := range n.alive {
		_ = p.in.Close() // all at once
	}
	for pid, p := range n.alive {
		p.finish()
		n.end(pid)
	}
	runs := 0
	for slot, times := range n.began {
		runs += times
		if times > 1 && !retry {
			redistest.Broken(t, "%s began %d times", slot, times)
		}
	}
	for slot, times := range n.done {
		if times > 1 {
			redistest.Broken(t, "%s succeeded %d times", slot, times)
		}
	}
	t.Logf("%d slots began, in %d runs; %d succeeded; %v in %v", len(n.began), runs, len(n.done), f, length)
	if length > short && len(n.began) < 85 { // some begin while Redis is away
		t.Errorf("only %d of 100 slots began", len(n.began))
	}
}

// injectFaults injects faults when a run has begun, for a time, and until each kind has
// occurred, a slot has succeeded and, if slots are retried, one was.
func (n *nodes) injectFaults(length time.Duration) (f faults) {
	n.w.t.Helper()
	var kinds []int
	goesOn := n.w.whileLasting(length, func() bool { return f.all() && len(n.done) > 0 && (!n.task.Strict || n.retried()) })
	for ; goesOn(); kinds = kinds[1:] {
		if len(kinds) == 0 {
			kinds = rand.Perm(5) // each kind comes in every round
		}
		pid := n.running()
		n.w.elapse(rand.N(period / 8))
		switch kinds[0] {
		case 0, 1:
			n.alive[pid].kill()
			n.end(pid)
			n.join()
			f.kills++
		case 2:
			n.w.stop(n.alive[pid], rand.N(3*n.task.TTL)) // now and then it goes on in time
			f.stops++
		case 3:
			n.w.restart(rand.N(period / 2))
			f.restarts++
		}
	}
	return f
}

// retried reports whether a slot was begun again.
func (n *nodes) retried() bool {
	for _, times := range n.began {
		if times > 1 {
			return true
		}
	}
	return false
}
