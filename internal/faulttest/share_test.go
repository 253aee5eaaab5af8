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
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
)

// everything is the weight of a writer.
const everything = 1 << 20

// part gets a lease of a weight: of a mutex, of a semaphore, or as a reader or writer.
func (tk task) part(ctx context.Context, c *holdfast.Client, weight int) (*holdfast.Lease, error) {
	ttl := holdfast.WithTTL(tk.TTL)
	switch {
	case tk.Capacity == 1 && tk.Strict:
		return c.Mutex(tk.Resource, ttl, holdfast.WithoutTenure()).Lock(ctx)
	case tk.Capacity == 1:
		return c.Mutex(tk.Resource, ttl).Lock(ctx)
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
// back, again and again. They write down what they rely on: "open RESOURCE TOKEN
// WEIGHT AT UNTIL" whenever the trust window is found to be open (UNTIL is its end
// as known then), "shut RESOURCE TOKEN WEIGHT AT" before they give it back or when
// they have learned of the loss. Instants are nanoseconds of this machine's clock.
func (w *worker) share() error { return w.repeat(w.takePart) }

// repeat lets the callers do one thing again and again, until the input ends.
func (w *worker) repeat(do func(ctx context.Context, d *diary) error) error {
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
				if err := do(ctx, d); err != nil && ctx.Err() == nil {
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
	hold := w.holdFor()
	d.rely(ctx, l, weight, hold)
	if weight == everything && rand.IntN(2) == 0 && l.Err() == nil {
		if err := l.Demote(ctx); err == nil {
			d.rely(ctx, l, 1, hold)
		}
	}
	_ = l.Release(ctx) // lost, unreachable or done: all may be
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
			for name, token := range l.Tokens() {
				d.note("open", name, token, weight, now, until)
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
		d.note("shut", name, token, weight, now)
	}
}

// stay is the time in which a caller relied on a part.
type stay struct {
	resource string
	token    uint64
	weight   int
	from, to int64
}

// stays reads what the workers wrote down.
func stays(t *testing.T, lines []string) []stay {
	t.Helper()
	type key struct {
		resource string
		token    uint64
		weight   int
	}
	found := map[key]stay{}
	for _, line := range lines {
		var k key
		var at, until int64
		if _, err := fmt.Sscanf(line, "open %s %d %d %d %d", &k.resource, &k.token, &k.weight, &at, &until); err == nil {
			s, known := found[k]
			if !known {
				s = stay{k.resource, k.token, k.weight, at, until}
			}
			s.to = until
			found[k] = s
			continue
		}
		if _, err := fmt.Sscanf(line, "shut %s %d %d %d", &k.resource, &k.token, &k.weight, &at); err != nil {
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
// order in which they began. Of a resource that one may have at a time, the tokens
// have to increase too.
func within(all []stay, capacity int) (most int, err error) {
	var inside []stay
	var top uint64
	for _, s := range all {
		if capacity == 1 && s.token <= top && err == nil {
			err = fmt.Errorf("token %d is held after %d", s.token, top)
		}
		top = max(top, s.token)
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
			"open x 10 1 1000 5000", "open x 10 1 3000 8000", "open x 11 1 2000 9000", "shut x 11 1 7000", "shut x 10 1 7500",
			fmt.Sprintf("open x 12 1048576 %d 12000", writerFrom), "shut x 12 1048576 9500", "open x 12 1 9500 12000", "open x 13 1 9600 13000",
		}
	}
	if most, err := within(stays(t, lines(7500)), everything); most != 2 || err != nil {
		t.Errorf("got %d at once, %v, want 2", most, err)
	}
	if _, err := within(stays(t, lines(7499)), everything); err == nil {
		t.Error("a reader beside a writer was not noticed")
	}
}

// underFaults lets five processes share a resource while processes are killed
// and stopped and Redis is killed and started again. By one clock, what they
// rely on never adds up to more than there is; afterwards all of it can be had.
func underFaults(t *testing.T, tk task, capacity int) {
	w := newWorld(t, keepingData())
	length := primitivetest.Soak(t, 5*time.Second)
	s := &troop{w: w, role: "share", task: tk}
	s.recruit(5)
	s.suffer(length, tk.TTL, func(lines []string) bool {
		all := stays(t, lines)
		most, _ := within(all, capacity)
		return len(all) >= 10 && most >= min(2, capacity)
	})
	s.dismiss()
	w.takeAll(tk, capacity)
	all := stays(t, s.lines)
	most, err := within(all, capacity)
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d stays, at most %d at once; %v in %v", len(all), most, s.faults, length)
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
	if onMiniredis() { // a call takes it 2 ms with the race detector: it cannot answer so many
		callers /= 5
	}
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
