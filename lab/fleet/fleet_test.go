package fleet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// The fleet of docs/TUNING.md, and how much of it is simulated: the server takes the more time for each call.
const (
	fleetClients = 10_000
	clientNames  = 100
)

var simulated = flag.Int("clients", 8, "clients to simulate, at most 10000; the figures are printed for 10,000")

// redis is what a busy Redis takes, from docs/PERFORMANCE.md: half a pair of bare EVALSHA, and a
// renewal in a merged call.
var redis = Costs{Call: 6100 * time.Nanosecond, Renewal: 2600 * time.Nanosecond}

// fleet is clients of one store.
type fleet struct {
	t       *testing.T
	store   *store
	clients []*holdfast.Client
	ttl     time.Duration
	lost    lostCounter
}

// lostCounter counts lost leases.
type lostCounter struct {
	mu sync.Mutex
	n  int
}

// Lost implements holdfast.LostHook.
func (l *lostCounter) Lost(*holdfast.LostError) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
}

func (l *lostCounter) take() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.n
	l.n = 0
	return n
}

// scale is the number of clients for which a simulated one stands.
func scale() time.Duration { return time.Duration(fleetClients / *simulated) }

// run runs a scene with a fleet in a bubble.
func run(t *testing.T, ttl time.Duration, scene func(f *fleet)) {
	synctest.Test(t, func(t *testing.T) {
		slow := Costs{redis.Call * scale(), redis.Renewal * scale()}
		f := &fleet{t: t, store: &store{Engine: memory.New(), costs: slow}, ttl: ttl}
		for i := range *simulated {
			c, err := holdfast.New(f.store, holdfast.WithName(fmt.Sprint("client ", i)), holdfast.WithHooks(&f.lost))
			if err != nil {
				t.Fatal(err)
			}
			f.clients = append(f.clients, c)
		}
		scene(f)
		for _, c := range f.clients {
			c.Close()
		}
	})
}

// each lets each client use its names one after the other, at random times within d.
func (f *fleet) each(d time.Duration, use func(m *holdfast.Mutex) error) {
	var all sync.WaitGroup
	for i, c := range f.clients {
		all.Go(func() {
			times := make([]time.Duration, clientNames)
			for n := range times {
				times[n] = rand.N(d)
			}
			slices.Sort(times)
			begun := time.Now()
			for n, at := range times {
				<-time.After(time.Until(begun.Add(at)))
				if err := use(c.Mutex(fmt.Sprint("name ", i, "/", n), holdfast.WithTTL(f.ttl))); err != nil {
					f.t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

// pass lets virtual time pass, and all that happens in it.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// holdAll lets each client acquire its names within d.
func (f *fleet) holdAll(d time.Duration) {
	f.each(d, func(m *holdfast.Mutex) error {
		_, err := m.Lock(context.Background())
		return err
	})
}

// report prints a load for the whole fleet of the page.
func (f *fleet) report(what string, l Load, in time.Duration) {
	s := float64(scale()) / in.Seconds()
	f.t.Logf("%s: %.0f calls/s with %.0f renewals/s, server %.2f cores", what, float64(l.Calls)*s, float64(l.Renewals)*s, l.Busy.Seconds()/in.Seconds())
}

// TestAllHeld holds all names. The default TTL nearly fills the server; half of it is too much, and leases are lost.
func TestAllHeld(t *testing.T) {
	for _, ttl := range []time.Duration{7500 * time.Millisecond, 15 * time.Second, 30 * time.Second, 60 * time.Second} {
		t.Run(ttl.String(), func(t *testing.T) {
			run(t, ttl, func(f *fleet) {
				f.holdAll(ttl)
				f.store.take()
				in := 2 * ttl
				pass(in)
				l, lost, all := f.store.take(), f.lost.take(), len(f.clients)*clientNames
				f.report("all held", l, in)
				t.Logf("lost: %.1f %%", 100*float64(lost)/float64(all))
				if want := all * 3 * 2; lost == 0 && (l.Renewals < want*9/10 || l.Renewals > want*11/10) {
					t.Errorf("%d renewals in two TTLs, want about %d: one in each third of a TTL", l.Renewals, want)
				}
				if overloaded := ttl < 15*time.Second; overloaded != (lost > 0) {
					t.Errorf("%d leases were lost with a TTL of %v, and the server was busy for %v of %v", lost, ttl, l.Busy, in)
				}
			})
		})
	}
}

// TestTurns locks each name once a minute, at random times.
func TestTurns(t *testing.T) {
	run(t, 15*time.Second, func(f *fleet) {
		const in = time.Minute
		f.each(in, func(m *holdfast.Mutex) error {
			return m.Do(context.Background(), func(context.Context) error { return nil })
		})
		l := f.store.take()
		f.report("each name once a minute", l, in)
		if want := 2 * len(f.clients) * clientNames; l.Calls < want || l.Calls > want*11/10 {
			t.Errorf("%d calls, want two for each of %d turns", l.Calls, want/2)
		}
	})
}

// TestWaiters lets callers wait for names that others hold: a tenth as many as there are names.
func TestWaiters(t *testing.T) {
	run(t, 60*time.Second, func(f *fleet) {
		holder := f.clients[0]
		waiting := max(1, clientNames/10)
		ctx, end := context.WithCancel(context.Background())
		var all sync.WaitGroup
		for i, c := range f.clients[1:] {
			for n := range waiting {
				name := fmt.Sprint("name ", i, "/", n)
				if _, err := holder.Mutex(name, holdfast.WithTTL(time.Hour)).Lock(ctx); err != nil {
					t.Fatal(err)
				}
				all.Go(func() {
					<-time.After(rand.N(5 * time.Second))
					if _, err := c.Mutex(name).Lock(ctx); !errors.Is(err, context.Canceled) {
						f.t.Errorf("a wait ended with %v", err)
					}
				})
			}
		}
		pass(10 * time.Second)
		f.store.take()
		const in = 20 * time.Second
		pass(in)
		l := f.store.take()
		f.report("waiters", l, in)
		if want := (len(f.clients) - 1) * waiting * 20; l.Calls < want*8/10 || l.Calls > want*13/10 {
			t.Errorf("%d calls in 20 s, want about one for each waiter and second: %d", l.Calls, want)
		}
		end()
		all.Wait()
	})
}

// TestOutages takes the server away for longer and longer, while all names are held with a TTL of a minute.
func TestOutages(t *testing.T) {
	const ttl = time.Minute
	for _, gone := range []time.Duration{10 * time.Second, 30 * time.Second, 36 * time.Second, 45 * time.Second} {
		t.Run(gone.String(), func(t *testing.T) {
			run(t, ttl, func(f *fleet) {
				f.holdAll(ttl / 3)
				pass(ttl)
				f.store.take()
				f.store.outage(gone)
				pass(gone)
				before := f.lost.take()
				pass(ttl / 3)
				l := f.store.take()
				f.report(fmt.Sprintf("after an outage of %v", gone), l, ttl/3)
				lost := before + f.lost.take()
				all := len(f.clients) * clientNames
				t.Logf("lost: %.1f %%", 100*float64(lost)/float64(all))
				if gone < 2*ttl/3-ttl/10 && lost > 0 || gone > 2*ttl/3 && lost == 0 {
					t.Errorf("an outage of %v lost %d of %d leases with a TTL of %v", gone, lost, all, ttl)
				}
			})
		})
	}
}
