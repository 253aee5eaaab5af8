package faulttest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	roleEnv = "HOLDFAST_FAULTTEST_ROLE"
	taskEnv = "HOLDFAST_FAULTTEST_TASK"
)

// task is what a worker process has to do.
type task struct {
	Addr     string   // of what the locks protect
	Nodes    []string // that have the locks; if none are named, that one
	Resource string
	TTL      time.Duration
	Callers  int
	For      time.Duration
	Counter  string
	Strict   bool // without tenure
	Capacity int  // of a semaphore; 0: readers and writers
	Weights  []int
}

// work is the main function of a worker process.
func work(role string) int {
	var tk task
	if err := json.Unmarshal([]byte(os.Getenv(taskEnv)), &tk); err != nil {
		fmt.Println("error", err)
		return 1
	}
	rdb := redis.NewClient(&redis.Options{Addr: tk.Addr})
	defer rdb.Close()
	if len(tk.Nodes) == 0 {
		tk.Nodes = []string{tk.Addr}
	}
	var pools []redis.UniversalClient
	for _, addr := range tk.Nodes {
		store := connect(addr)
		defer store.Close()
		pools = append(pools, store)
	}
	var came arrivals
	c, err := holdfast.New(engineOn(pools), holdfast.WithHooks(&came))
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	defer c.Close()
	roles := map[string]func(*worker) error{
		"hold": (*worker).hold, "wait": (*worker).wait, "count": (*worker).count, "turns": (*worker).turns,
		"use shares": (*worker).useShares, "hold a share": (*worker).holdShare, "lead": (*worker).lead, "serve": (*worker).serve, "countdown": (*worker).countDown,
		"consume": (*worker).consume, "use several names": (*worker).useSeveral, "once": (*worker).once, "await": (*worker).await,
		"hold several names": (*worker).holdSeveral, "transfer": (*worker).transfer,
	}
	w := &worker{task: tk, rdb: rdb, c: c, came: &came, in: bufio.NewScanner(os.Stdin)}
	if err := roles[role](w); err != nil {
		fmt.Println("error", err)
		return 1
	}
	return 0
}

// arrivals counts the leases that came from the store, not from another caller of the process: the slices.
type arrivals struct{ n atomic.Int64 }

func (a *arrivals) AcquireEnd(_ context.Context, e holdfast.AcquireEndEvent) {
	if e.Err == nil && e.Source != holdfast.SourceProcess {
		a.n.Add(1)
	}
}

type worker struct {
	task
	came *arrivals
	rdb  *redis.Client
	c    *holdfast.Client
	in   *bufio.Scanner
}

func (w *worker) mutex() *holdfast.Mutex {
	opts := []holdfast.LockOption{holdfast.WithTTL(w.TTL)}
	if w.Strict {
		opts = append(opts, holdfast.WithoutTenure())
	}
	return w.c.Mutex(w.Resource, opts...)
}

// hold acquires the lease and prints so; at each line of input it prints whether it still
// holds, and tries a fenced write.
func (w *worker) hold() error {
	ctx := context.Background()
	l, err := w.mutex().Lock(ctx)
	if err != nil {
		return err
	}
	fmt.Println("held", l.Token())
	for w.in.Scan() {
		// The first thing after a pause: both must report the loss before any timer has run.
		ctxErr, err := l.Context().Err(), l.Err()
		wrote, werr := fencedWrite(ctx, w.rdb, w.Counter, l.Token())
		if werr != nil {
			return werr
		}
		fmt.Printf("lost=%v ctx=%v wrote=%v\n", errors.Is(err, holdfast.ErrLost), ctxErr != nil, wrote)
	}
	return nil
}

// wait queues and is expected to be killed there.
func (w *worker) wait() error {
	fmt.Println("waiting")
	l, err := w.mutex().Lock(context.Background())
	if err != nil {
		return err
	}
	fmt.Println("held", l.Token())
	w.in.Scan()
	return l.Release(context.Background())
}

// fencedWrite is the protected side: it takes a write only if its token is not
// older than the newest it has seen.
func fencedWrite(ctx context.Context, rdb *redis.Client, key string, token uint64) (bool, error) {
	const script = `
local seen = tonumber(redis.call('HGET', KEYS[1], 'token') or '0')
if tonumber(ARGV[1]) < seen then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[1])
redis.call('PEXPIRE', KEYS[1], 600000)
return 1`
	n, err := rdb.Eval(ctx, script, []string{key}, token).Int()
	return n == 1, err
}

// count adds to a counter by read-then-write until it is stopped by the
// end of its input. The counter and the number of turns move in one step, so
// that both are exact although the process may be killed at any moment.
func (w *worker) count() error { return w.repeat(w.turn) }

// untilInputEnds returns a ctx that ends with the input of the worker.
func (w *worker) untilInputEnds() (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		for w.in.Scan() {
		}
		stop()
	}()
	return ctx, stop
}

// repeat prints that the worker is ready, and has its callers repeat do until the input ends. A
// caller ends at its first error, and repeat returns one of the errors.
func (w *worker) repeat(do func(ctx context.Context) error) error {
	ctx, stop := w.untilInputEnds()
	defer stop()
	fmt.Println("ready")
	errs := make(chan error, w.Callers)
	var wg sync.WaitGroup
	for range w.Callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := do(ctx); err != nil && ctx.Err() == nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// turnsOf is the key of the number of turns, in the counter's slot of a cluster.
func turnsOf(counter string) string { return "{" + counter + "}:turns" }

func (w *worker) turn(ctx context.Context) error {
	l, err := w.mutex().Lock(ctx)
	if err != nil {
		return err
	}
	defer l.Release(context.Background())
	n, err := w.rdb.Get(ctx, w.Counter).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	if l.Err() != nil {
		return nil
	}
	_, err = w.rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, w.Counter, n+1, 10*time.Minute)
		p.Incr(ctx, turnsOf(w.Counter))
		p.Expire(ctx, turnsOf(w.Counter), 10*time.Minute)
		return nil
	})
	return err
}

// tally is what one caller got.
type tally struct {
	Turns    int
	MaxWait  time.Duration
	WaitsP50 time.Duration
	Slices   int // of the caller's process
}

// turns takes turns on the resource for a time from the given instant on,
// in nanoseconds of this machine's clock, and prints a tally for each caller.
func (w *worker) turns() error {
	// Warm up: connections, scripts, subscription.
	l, err := w.mutex().Lock(context.Background())
	if err != nil {
		return err
	}
	if err := l.Release(context.Background()); err != nil {
		return err
	}
	fmt.Println("ready")
	w.in.Scan()
	start, err := strconv.ParseInt(w.in.Text(), 10, 64)
	if err != nil {
		return err
	}
	tallies, err := takeTurns(w.mutex(), w.Callers, time.Unix(0, start), w.For, w.increment)
	if err != nil {
		return err
	}
	for i := range tallies {
		tallies[i].Slices = int(w.came.n.Load())
	}
	b, err := json.Marshal(tallies)
	fmt.Println("tally", string(b))
	return err
}

// increment is the work of a turn: read, then write.
func (w *worker) increment() error {
	ctx := context.Background()
	n, err := w.rdb.Get(ctx, w.Counter).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	return w.rdb.Set(ctx, w.Counter, n+1, 10*time.Minute).Err()
}

// takeTurns runs callers that lock, work and release, again and again, from an instant
// on for a time.
func takeTurns(m *holdfast.Mutex, callers int, from time.Time, d time.Duration, turn func() error) ([]tally, error) {
	tallies := make([]tally, callers)
	var failed atomic.Value
	var wg sync.WaitGroup
	start := make(chan struct{})
	var stop atomic.Bool
	for i := range callers {
		wg.Go(func() {
			waits := make([]time.Duration, 0, 1<<16)
			<-start
			for !stop.Load() {
				t0 := time.Now()
				l, err := m.Lock(context.Background())
				if err != nil {
					failed.Store(err)
					return
				}
				if wait := time.Since(t0); !stop.Load() {
					waits = append(waits, wait)
				}
				err = turn()
				if err := errors.Join(err, l.Release(context.Background())); err != nil {
					failed.Store(err)
					return
				}
			}
			slices.Sort(waits)
			if len(waits) > 0 {
				tallies[i] = tally{Turns: len(waits), MaxWait: waits[len(waits)-1], WaitsP50: waits[len(waits)/2]}
			}
		})
	}
	begin := time.AfterFunc(time.Until(from), func() { close(start) })
	defer begin.Stop()
	end := time.AfterFunc(time.Until(from.Add(d)), func() { stop.Store(true) })
	defer end.Stop()
	wg.Wait()
	if err, ok := failed.Load().(error); ok {
		return nil, err
	}
	return tallies, nil
}

// process is a worker process, from the side of the test.
type process struct {
	w     *fixture
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	ended chan error
}

// start runs a worker; it is killed when the test ends.
func (w *fixture) start(role string, tk task) *process {
	w.t.Helper()
	if tk.Addr == "" {
		tk.Addr, tk.Nodes = w.addrs[0], w.addrs
	}
	b, err := json.Marshal(tk)
	if err != nil {
		w.t.Fatal(err)
	}
	p := &process{w: w, lines: make(chan string, 1024), ended: make(chan error, 1)}
	var out io.Reader
	p.cmd, p.in, out, err = redistest.StartSelf(os.Stderr, roleEnv+"="+role, taskEnv+"="+string(b))
	if err != nil {
		w.t.Fatal(err)
	}
	if w.workers == nil {
		w.workers = make(map[int]bool)
	}
	w.workers[p.cmd.Process.Pid] = false
	go func() {
		s := bufio.NewScanner(out)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			p.lines <- s.Text()
		}
		close(p.lines)
		p.ended <- p.cmd.Wait()
	}()
	w.t.Cleanup(p.kill)
	return p
}

// expect returns the rest of the next line, which must begin with word.
func (p *process) expect(word string) string {
	p.w.t.Helper()
	select {
	case s, ok := <-p.lines:
		rest, match := strings.CutPrefix(s, word)
		if !ok || !match {
			p.w.t.Fatalf("worker printed %q, want %q", s, word)
		}
		return strings.TrimSpace(rest)
	case <-time.After(waitTimeout):
		p.w.t.Fatalf("worker did not print %q in %v", word, waitTimeout)
		return ""
	}
}

// drain reads the lines that the worker has printed by now.
func (p *process) drain(read func(line string)) {
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				return
			}
			read(line)
		default:
			return
		}
	}
}

// send writes a line to the input of the worker.
func (p *process) send(s string) {
	p.w.t.Helper()
	if _, err := fmt.Fprintln(p.in, s); err != nil {
		p.w.t.Fatal(err)
	}
}

func (p *process) signal(sig syscall.Signal) {
	p.w.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.w.t.Fatal(err)
	}
}

// finish ends the input and waits for a clean exit.
func (p *process) finish() {
	p.w.t.Helper()
	_ = p.in.Close()
	select {
	case err := <-p.ended:
		p.ended <- err
		if err != nil {
			var said []string
			for s := range p.lines {
				said = append(said, s)
			}
			p.w.t.Fatalf("worker: %v %q", err, said)
		}
		p.w.workers[p.cmd.Process.Pid] = true
	case <-time.After(waitTimeout):
		p.w.t.Fatalf("worker did not end in %v", waitTimeout)
	}
}

// kill ends the worker by SIGKILL, also if it is stopped, and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended by itself
	_ = p.in.Close()
	p.ended <- <-p.ended
}
