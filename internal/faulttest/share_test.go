package faulttest

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// sharedTimeEnv makes the tests of shared resources run for longer, like 1m.
const sharedTimeEnv = "HOLDFAST_SHARED_TIME"

// everything is the weight of a writer.
const everything = 1 << 20

// part gets a lease of a weight: of a semaphore, or as a reader or writer.
func (tk task) part(ctx context.Context, c *holdfast.Client, weight int) (*holdfast.Lease, error) {
	ttl := holdfast.WithTTL(tk.TTL)
	switch {
	case tk.Capacity > 0:
		return c.Semaphore(tk.Resource, tk.Capacity, ttl).Acquire(ctx, weight)
	case weight == everything:
		return c.RWMutex(tk.Resource, ttl).Lock(ctx)
	}
	return c.RWMutex(tk.Resource, ttl).RLock(ctx)
}

// keep takes a lease of the first weight, says so, and holds it until it is
// killed or told to end.
func (w *worker) keep() error {
	l, err := w.part(context.Background(), w.c, w.Weights[0])
	if err != nil {
		return err
	}
	fmt.Println("held", l.Token())
	w.in.Scan()
	return l.Release(context.Background())
}

// share is the role of callers that take a part, hold it for a while and give it
// back, again and again. They write down what they rely on: "open TOKEN WEIGHT
// AT UNTIL" whenever the trust window is found to be open (UNTIL is its end as
// known then), "shut TOKEN WEIGHT AT" before they give it back or when they have
// learned of the loss. Instants are nanoseconds of this machine's clock.
func (w *worker) share() error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		for w.in.Scan() {
		}
		stop()
	}()
	fmt.Println("ready")
	d := &diary{out: bufio.NewWriter(os.Stdout)}
	errs := make(chan error, w.Callers)
	var wg sync.WaitGroup
	for range w.Callers {
		wg.Go(func() {
			for ctx.Err() == nil {
				if err := w.takePart(ctx, d); err != nil && ctx.Err() == nil {
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

func (w *worker) takePart(ctx context.Context, d *diary) error {
	weight := w.Weights[rand.IntN(len(w.Weights))]
	l, err := w.part(ctx, w.c, weight)
	if err != nil {
		return err
	}
	hold := rand.N(w.TTL / 4)
	if rand.IntN(10) == 0 {
		hold = w.TTL + rand.N(w.TTL) // it has to be renewed
	}
	d.rely(ctx, l, weight, hold)
	if weight == everything && rand.IntN(2) == 0 && l.Err() == nil {
		if err := l.Demote(ctx); err == nil {
			d.rely(ctx, l, 1, hold)
		}
	}
	_ = l.Release(ctx) // lost, unreachable or done: all may be
	return nil
}

// diary is what a worker writes down.
type diary struct {
	mu  sync.Mutex
	out *bufio.Writer
}

func (d *diary) note(words ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintln(d.out, words...)
	_ = d.out.Flush()
}

// rely holds a lease for a time, as a holder does that looks at the clock.
func (d *diary) rely(ctx context.Context, l *holdfast.Lease, weight int, hold time.Duration) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(hold)
	for last, going := int64(0), true; going; {
		now, until := time.Now().UnixNano(), l.Deadline().UnixNano()
		if l.Err() != nil {
			break
		}
		if until != last {
			d.note("open", l.Token(), weight, now, until)
			last = until
		}
		select {
		case <-tick.C:
		case <-end:
			going = false
		case <-ctx.Done():
			going = false
		}
	}
	d.note("shut", l.Token(), weight, time.Now().UnixNano())
}

// stay is the time in which a caller relied on a part.
type stay struct {
	token    uint64
	weight   int
	from, to int64
}

// stays reads what the workers wrote down.
func stays(t *testing.T, lines []string) []stay {
	t.Helper()
	type key struct {
		token  uint64
		weight int
	}
	found := map[key]stay{}
	for _, line := range lines {
		var k key
		var at, until int64
		if _, err := fmt.Sscanf(line, "open %d %d %d %d", &k.token, &k.weight, &at, &until); err == nil {
			s, known := found[k]
			if !known {
				s = stay{k.token, k.weight, at, until}
			}
			s.to = until
			found[k] = s
			continue
		}
		if _, err := fmt.Sscanf(line, "shut %d %d %d", &k.token, &k.weight, &at); err != nil {
			t.Fatalf("a worker wrote %q", line)
		}
		if s, known := found[k]; known {
			s.to = min(s.to, at)
			found[k] = s
		}
	}
	all := make([]stay, 0, len(found))
	for _, s := range found {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b stay) int { return cmp.Compare(a.from, b.from) })
	return all
}

// within tells how many stays there were at once, and the first instant at which
// they add up to more than the capacity, if there is one. It wants them in the
// order in which they began.
func within(all []stay, capacity int) (most int, err error) {
	var inside []stay
	for _, s := range all {
		inside = slices.DeleteFunc(inside, func(o stay) bool { return o.to <= s.from })
		inside = append(inside, s)
		used := 0
		for _, o := range inside {
			used += o.weight
		}
		if used > capacity && err == nil {
			err = fmt.Errorf("%d of %d are held at %d: %+v", used, capacity, s.from, inside)
		}
		most = max(most, len(inside))
	}
	return most, err
}

// The judge sees a reader that is in with a writer, be it for a microsecond.
func TestJudgeOfStays(t *testing.T) {
	lines := func(writerFrom int) []string {
		return []string{
			"open 10 1 1000 5000", "open 10 1 3000 8000", "open 11 1 2000 9000", "shut 11 1 7000", "shut 10 1 7500",
			fmt.Sprintf("open 12 1048576 %d 12000", writerFrom), "shut 12 1048576 9500", "open 12 1 9500 12000", "open 13 1 9600 13000",
		}
	}
	if most, err := within(stays(t, lines(7500)), everything); most != 2 || err != nil {
		t.Errorf("got %d at once, %v, want 2", most, err)
	}
	if _, err := within(stays(t, lines(7499)), everything); err == nil {
		t.Error("a reader beside a writer was not noticed")
	}
}

// sharers are worker processes that share a resource.
type sharers struct {
	w      *world
	task   task
	living []*process
	lines  []string // of all processes so far
}

func (s *sharers) join() {
	p := s.w.start("share", s.task)
	p.line("ready")
	s.living = append(s.living, p)
}

// drain keeps the pipes of the living from filling up.
func (s *sharers) drain() {
	for _, p := range s.living {
		for more := true; more; {
			select {
			case line := <-p.lines:
				s.lines = append(s.lines, line)
			default:
				more = false
			}
		}
	}
}

// kill ends one by SIGKILL and keeps what it wrote.
func (s *sharers) kill(i int) {
	p := s.living[i]
	p.kill()
	for line := range p.lines {
		s.lines = append(s.lines, line)
	}
	s.living = slices.Delete(s.living, i, i+1)
}

// underFaults lets five processes share a resource while processes are killed
// and stopped and Redis is killed and started again. By one clock, what they
// rely on never adds up to more than there is; afterwards all of it can be had.
func underFaults(t *testing.T, tk task, capacity int) {
	// The promise is for a store that keeps its data.
	w := newWorld(t, redistest.WithArgs("--appendonly", "yes", "--appendfsync", "always"))
	length := 7 * time.Second
	if text := os.Getenv(sharedTimeEnv); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	s := &sharers{w: w, task: tk}
	for range 5 {
		s.join()
	}
	faults, counts := []int{}, [3]int{}
	for deadline := time.Now().Add(length); time.Now().Before(deadline); faults = faults[1:] {
		if len(faults) == 0 {
			faults = rand.Perm(4) // each kind comes in every round, and one quiet time
		}
		i := rand.IntN(len(s.living))
		switch faults[0] {
		case 0:
			s.kill(i)
			s.join()
			counts[0]++
		case 1:
			p := s.living[i]
			p.signal(syscall.SIGSTOP)
			w.pass(tk.TTL/4 + rand.N(2*tk.TTL)) // now and then it goes on in time
			p.signal(syscall.SIGCONT)
			counts[1]++
		case 2:
			w.redis.Kill()
			w.pass(rand.N(tk.TTL * 3 / 2))
			w.redis.Restart()
			counts[2]++
		}
		w.pass(tk.TTL + rand.N(tk.TTL)) // others have their turn
		s.drain()
	}
	for _, p := range s.living {
		_ = p.in.Close() // all at once
	}
	for len(s.living) > 0 {
		s.living[0].finish()
		s.kill(0)
	}
	w.takeAll(tk, capacity)
	all := stays(t, s.lines)
	most, err := within(all, capacity)
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d stays, at most %d at once; %d kills, %d stops, %d restarts in %v", len(all), most, counts[0], counts[1], counts[2], length)
	if slices.Min(counts[:]) == 0 {
		t.Error("a kind of fault never happened")
	}
	if len(all) < 25 || most < 2 {
		t.Error("hardly anything was shared")
	}
}

// takeAll gets and gives back all there is: no part was lost.
func (w *world) takeAll(tk task, capacity int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), tk.TTL+5*time.Second)
	defer cancel()
	l, err := tk.part(ctx, w.client(), capacity)
	if err != nil {
		w.t.Fatalf("all of it, at the end: %v", err)
	}
	w.release(l)
}

// drainAll lets many callers get a part at once; each must get it, in time.
func drainAll(t *testing.T, tk task, callers int) {
	w := newWorld(t)
	var clients []*holdfast.Client
	for range 5 {
		clients = append(clients, w.client())
	}
	first, err := tk.part(t.Context(), w.client(), tk.Weights[0])
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	errs := make(chan error, callers)
	for i := range callers {
		go func() {
			l, err := tk.part(ctx, clients[i%len(clients)], tk.Weights[i%len(tk.Weights)])
			if err == nil {
				err = l.Release(context.Background())
			}
			errs <- err
		}()
	}
	w.waiting(clients[0], tk.Resource, callers)
	start := time.Now()
	w.release(first)
	var failed error
	for range callers {
		failed = errors.Join(failed, <-errs)
	}
	if failed != nil {
		t.Error(failed)
	}
	t.Logf("%d waiters were served in %v", callers, time.Since(start).Round(time.Millisecond))
}
