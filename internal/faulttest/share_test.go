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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// writerWeight is the weight of a writer.
const writerWeight = 1 << 20

// acquireShare acquires a lease of a weight: of a mutex, of a semaphore, or as a reader or writer.
func (tk task) acquireShare(ctx context.Context, c *holdfast.Client, weight int) (*holdfast.Lease, error) {
	opts := []holdfast.LockOption{holdfast.WithTTL(tk.TTL)}
	if tk.Strict {
		opts = append(opts, holdfast.WithoutTenure())
	}
	switch {
	case tk.Capacity == 1:
		return c.Mutex(tk.Resource, opts...).Lock(ctx)
	case tk.Capacity > 0:
		return c.Semaphore(tk.Resource, tk.Capacity, opts...).Acquire(ctx, weight)
	case weight == writerWeight:
		return c.RWMutex(tk.Resource, opts...).Lock(ctx)
	}
	return c.RWMutex(tk.Resource, opts...).RLock(ctx)
}

// holdShare is the role of a worker that acquires a lease of the first weight, prints so,
// and holds it until it is killed or its input ends.
func (w *worker) holdShare() error {
	l, err := w.acquireShare(context.Background(), w.c, w.Weights[0])
	if err != nil {
		return err
	}
	fmt.Println("held", l.Token())
	w.in.Scan()
	return l.Release(context.Background())
}

// useShares is the role of callers that acquire a share, use it for a while and release
// it, again and again. They print each use: "open CALLER RESOURCE TOKEN WEIGHT AT UNTIL"
// whenever the trust window is found open (UNTIL is its end at that time), "shut CALLER
// RESOURCE TOKEN WEIGHT AT" before the release or after a loss. CALLER identifies the call
// that acquired. Instants are nanoseconds of this machine's clock.
func (w *worker) useShares() error { return w.repeatUse(w.useShare) }

// repeatUse repeats use with a log of the uses. Grants that come too late are no errors.
func (w *worker) repeatUse(use func(ctx context.Context, d *usageLog) error) error {
	d := &usageLog{out: bufio.NewWriter(os.Stdout)}
	return w.repeat(func(ctx context.Context) error {
		if err := use(ctx, d); !grantsTooLate(err) {
			return err
		}
		return nil
	})
}

func (w *worker) useShare(ctx context.Context, d *usageLog) error {
	weight := w.Weights[rand.IntN(len(w.Weights))]
	l, err := w.acquireShare(ctx, w.c, weight)
	if err != nil {
		return err
	}
	hold := w.holdFor()
	caller := d.caller()
	d.use(ctx, caller, l, weight, hold)
	if weight == writerWeight && rand.IntN(2) == 0 && l.Err() == nil {
		if err := l.Demote(ctx); err == nil {
			d.use(ctx, caller, l, 1, hold)
		}
	}
	_ = l.Release(ctx) // it may be lost, unreachable or done
	return nil
}

// holdFor is a time for which to hold: mostly a short one, and now and then one in
// which the lease has to be renewed.
func (tk task) holdFor() time.Duration {
	if rand.IntN(10) == 0 {
		return tk.TTL + rand.N(tk.TTL)
	}
	return rand.N(tk.TTL / 4)
}

// usageLog prints the uses of a worker.
type usageLog struct {
	mu    sync.Mutex
	out   *bufio.Writer
	calls int
}

// caller returns a new identity of a call. Leases that are handed off inside a process share
// their holder ID.
func (d *usageLog) caller() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	return fmt.Sprint(os.Getpid(), "-", d.calls)
}

func (d *usageLog) note(words ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintln(d.out, words...)
	_ = d.out.Flush()
}

// use uses a lease for a time, as a holder does that checks the trust window.
func (d *usageLog) use(ctx context.Context, caller string, l *holdfast.Lease, weight int, hold time.Duration) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(hold)
	for last, going := int64(0), true; going; {
		now, until := time.Now().UnixNano(), l.Deadline().UnixNano()
		if l.Err() != nil {
			break
		}
		if until != last {
			for name, token := range l.Tokens() {
				d.note("open", caller, name, token, weight, now, until)
			}
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
	now := time.Now().UnixNano()
	for name, token := range l.Tokens() {
		d.note("shut", caller, name, token, weight, now)
	}
}

// usage is the time for which a caller used a share.
type usage struct {
	caller   string
	resource string
	token    uint64
	weight   int
	from, to int64
}

// usagesOf parses the lines of the workers.
func usagesOf(t *testing.T, lines []string) []usage {
	t.Helper()
	type key struct { // not the token, which is judged
		caller, resource string
		weight           int
	}
	found := map[key]usage{}
	for _, line := range lines {
		var k key
		var token uint64
		var at, until int64
		if _, err := fmt.Sscanf(line, "open %s %s %d %d %d %d", &k.caller, &k.resource, &token, &k.weight, &at, &until); err == nil {
			s, known := found[k]
			if !known {
				s = usage{k.caller, k.resource, token, k.weight, at, until}
			}
			s.to = until
			found[k] = s
			continue
		}
		if _, err := fmt.Sscanf(line, "shut %s %s %d %d %d", &k.caller, &k.resource, &token, &k.weight, &at); err != nil {
			t.Fatalf("a worker wrote %q", line)
		}
		if s, known := found[k]; known {
			s.to = min(s.to, at)
			found[k] = s
		}
	}
	all := make([]usage, 0, len(found))
	for _, s := range found {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b usage) int { return cmp.Compare(a.from, b.from) })
	return all
}

// checkOverlap returns the largest number of usages at once, and an error for the first
// instant at which they add up to more than the capacity, or at which a caller has no token
// or that of another; readers of one process may have the same. They must be in the order of their starts. With a capacity of 1 the
// tokens must increase too.
func checkOverlap(all []usage, capacity int) (most int, err error) {
	var inside []usage
	var top uint64
	first := map[uint64]usage{}
	for _, s := range all {
		other, known := first[s.token]
		shared := capacity == writerWeight && s.weight == 1 && other.weight == 1 && processOf(s.caller) == processOf(other.caller)
		if (s.token == 0 || known && other.caller != s.caller && !shared) && err == nil {
			err = fmt.Errorf("token %d is that of %q and of %q", s.token, other.caller, s.caller)
		}
		if !known {
			first[s.token] = s
		}
		if capacity == 1 && s.token <= top && err == nil {
			err = fmt.Errorf("token %d is held after %d", s.token, top)
		}
		top = max(top, s.token)
		inside = slices.DeleteFunc(inside, func(o usage) bool { return o.to <= s.from })
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

// processOf returns the process of a caller; see usageLog.caller.
func processOf(caller string) string {
	pid, _, _ := strings.Cut(caller, "-")
	return pid
}

// Readers of one process may have one token, but not those of two, nor a writer that was demoted and another reader.
func TestJudgeOfSharedTokens(t *testing.T) {
	for what, lines := range map[string][]string{
		"":                 {"open 1-1 x 10 1 1000 5000", "open 1-2 x 10 1 2000 6000"},
		"two processes":    {"open 1-1 x 10 1 1000 5000", "open 2-1 x 10 1 2000 6000"},
		"a demoted writer": {"open 1-1 x 10 1048576 1000 5000", "shut 1-1 x 10 1048576 1500", "open 1-1 x 10 1 1500 5000", "open 1-2 x 10 1 2000 6000"},
		"two writers":      {"open 1-1 x 10 1048576 1000 1500", "open 1-2 x 10 1048576 2000 6000"},
		"without a token":  {"open 1-1 x 0 1 1000 5000", "open 1-2 x 0 1 2000 6000"},
	} {
		if _, err := checkOverlap(usagesOf(t, lines), writerWeight); (err == nil) != (what == "") {
			t.Errorf("%q: %v", what, err)
		}
	}
	if _, err := checkOverlap(usagesOf(t, []string{"open 1-1 x 10 1 1000 5000", "open 1-2 x 10 1 2000 6000"}), 5); err == nil {
		t.Error("units of a semaphore with one token were not noticed")
	}
}

// The check finds a reader beside a writer, even for a microsecond.
func TestJudgeOfStays(t *testing.T) {
	lines := func(writerFrom int) []string {
		return []string{
			"open a x 10 1 1000 5000", "open a x 10 1 3000 8000", "open b x 11 1 2000 9000", "shut b x 11 1 7000", "shut a x 10 1 7500",
			fmt.Sprintf("open c x 12 1048576 %d 12000", writerFrom), "shut c x 12 1048576 9500", "open c x 12 1 9500 12000", "open d x 13 1 9600 13000",
		}
	}
	if most, err := checkOverlap(usagesOf(t, lines(7500)), writerWeight); most != 2 || err != nil {
		t.Errorf("got %d at once, %v, want 2", most, err)
	}
	if _, err := checkOverlap(usagesOf(t, lines(7499)), writerWeight); err == nil {
		t.Error("a reader beside a writer was not noticed")
	}
}

// The check finds two callers with one token, whether they overlap or not, and callers
// without a token.
func TestJudgeOfTokens(t *testing.T) {
	for name, lines := range map[string][]string{
		"together":         {"open a x 10 1 1000 5000", "open b x 10 1 2000 6000"},
		"in turn":          {"open a x 10 1 1000 5000", "shut a x 10 1 2000", "open b x 10 1 3000 6000"},
		"without a token":  {"open a x 0 1 1000 5000"},
		"of which neither": {"open a x 0 1 1000 5000", "open b x 0 1 2000 6000"},
	} {
		for _, capacity := range []int{1, 5} {
			all := usagesOf(t, lines)
			if _, err := checkOverlap(all, capacity); err == nil {
				t.Errorf("%s, capacity %d: %+v was not noticed", name, capacity, all)
			}
		}
	}
}

// shareUnderFaults has five processes share a resource while processes are killed and
// stopped and Redis is killed and started again. By one clock, what they use never adds
// up to more than the capacity; afterwards the whole capacity can be acquired.
func shareUnderFaults(t *testing.T, tk task, capacity int) {
	w := newFixture(t, keepingData())
	length := primitivetest.Soak(t, 5*time.Second)
	s := &workerGroup{w: w, role: "use shares", task: tk}
	s.startAll(5)
	s.injectFaults(length, tk.TTL, func(lines []string) bool {
		all := usagesOf(t, lines)
		most, _ := checkOverlap(all, capacity)
		return len(all) >= 10 && most >= min(2, capacity)
	})
	s.finishAll()
	w.requireAll(tk, capacity)
	all := usagesOf(t, s.lines)
	most, err := checkOverlap(all, capacity)
	if err != nil {
		redistest.Broken(t, "%v", err)
	}
	t.Logf("%d uses, at most %d at once; %v in %v", len(all), most, s.faults, length)
}

// requireAll acquires and releases the whole capacity: no share was lost.
func (w *fixture) requireAll(tk task, capacity int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), tk.TTL+5*time.Second)
	defer cancel()
	l, err := tk.acquireShare(ctx, w.client(), capacity)
	if err != nil {
		w.t.Fatalf("the whole capacity, at the end: %v", err)
	}
	w.release(l)
}

// serveMany has many callers wait for a share; each must be granted in time.
func serveMany(t *testing.T, tk task, callers int) {
	w := newFixture(t)
	if onMiniredis() { // it is slower than a Redis
		callers /= 5
	}
	var clients []*holdfast.Client
	for range 5 {
		clients = append(clients, w.client())
	}
	first, err := tk.acquireShare(t.Context(), w.client(), tk.Weights[0])
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	errs := make(chan error, callers)
	for i := range callers {
		go func() {
			l, err := tk.acquireShare(ctx, clients[i%len(clients)], tk.Weights[i%len(tk.Weights)])
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
