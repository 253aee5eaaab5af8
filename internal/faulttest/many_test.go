package faulttest

import (
	"context"
	"errors"
	"net"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/keepalive"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// A client has very many leases when its store goes away, hanging or refusing. If
// it comes back in time all are kept. If not, every holder is notified before the store
// could give its lease to another, with few goroutines all along, and what the
// store still has is released when it is back.
func TestManyLeasesWhenTheStoreGoesAway(t *testing.T) {
	for name, through := range map[string]func(t *testing.T, s *redistest.Server) (*redis.Client, func() (back func())){
		"hangs": func(_ *testing.T, s *redistest.Server) (*redis.Client, func() func()) {
			return s.Client(), func() func() { s.Pause(); return s.Resume }
		},
		"refuses": func(_ *testing.T, s *redistest.Server) (*redis.Client, func() func()) {
			var g gate
			rdb := s.Client(func(o *redis.Options) { o.Dialer = g.dial })
			return rdb, func() func() { g.shut(); return g.open }
		},
	} {
		t.Run(name, func(t *testing.T) {
			rdb, fault := through(t, redistest.Start(t))
			m := newMany(t, rdb, redistest.Scale(200, 100_000), time.Duration(redistest.Scale(1, 15))*time.Second)

			start := time.Now()
			back := fault()
			<-time.After(m.ttl / 4)
			back()
			<-time.After(m.ttl)
			m.allKept(start)

			back = fault()
			m.awaitLosses()
			back()
			m.check()
			for _, i := range []int{0, len(m.leases) / 2, len(m.leases) - 1} {
				ctx, cancel := context.WithTimeout(t.Context(), 2*m.ttl)
				if l, err := m.c.Mutex(strconv.Itoa(i)).Lock(ctx); err != nil {
					t.Errorf("lease %d cannot be had again: %v", i, err)
				} else if l.Token() <= m.leases[i].Token() {
					redistest.Broken(t, "lease %d: token %d after %d", i, l.Token(), m.leases[i].Token())
				}
				cancel()
			}
			start = time.Now()
			if err := m.c.Close(); err != nil {
				t.Error(err)
			}
			t.Logf("Close took %v", time.Since(start))
		})
	}
}

// A client releases very many leases well within the time that Close may take.
func TestCloseOfManyLeases(t *testing.T) {
	server := redistest.Start(t)
	m := newMany(t, server.Client(), redistest.Scale(1000, 100_000), 15*time.Second)
	start := time.Now()
	err := m.c.Close()
	t.Logf("Close of %d leases took %v", len(m.leases), time.Since(start))
	if err != nil {
		t.Error(err)
	}
	if most := m.goroutines.Load() - m.before; most > 200 {
		t.Errorf("%d goroutines", most)
	}
	other := m.client(server.Client())
	for i := 0; i < len(m.leases); i += 1 + len(m.leases)/500 {
		if _, err := other.Mutex(strconv.Itoa(i)).TryLock(t.Context()); err != nil {
			t.Errorf("lease %d was not released: %v", i, err)
		}
	}
}

// gate makes connections, and refuses them while it is shut. It has no goroutines,
// since those of the client are counted.
type gate struct {
	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

func (g *gate) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err == nil {
		g.conns = append(g.conns, conn)
	}
	return conn, err
}

// shut ends all connections as well.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, conn := range g.conns {
		_ = conn.Close() // it may be closed already
	}
	g.closed, g.conns = true, nil
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = false
}

// many is a client with very many leases, and what becomes of them.
type many struct {
	*testing.T
	c        *holdfast.Client
	ttl      time.Duration
	leases   []*holdfast.Lease
	done     []<-chan struct{}
	at       []time.Time  // when the loss of each was seen
	hooked   atomic.Int64 // losses that the hook was called for
	notified atomic.Int64

	before     int64 // goroutines
	goroutines atomic.Int64
	stalls     *redistest.Stalls
}

// Lost implements holdfast.LostHook.
func (m *many) Lost(*holdfast.LostError) { m.hooked.Add(1) }

func (m *many) client(rdb redis.UniversalClient) *holdfast.Client {
	c, err := holdfast.New(goredis.New(rdb), holdfast.WithHooks(m))
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { _ = c.Close() })
	return c
}

func newMany(t *testing.T, rdb redis.UniversalClient, n int, ttl time.Duration) *many {
	m := &many{T: t, ttl: ttl, leases: make([]*holdfast.Lease, n), done: make([]<-chan struct{}, n), at: make([]time.Time, n)}
	m.stalls = redistest.WatchStalls(t)
	m.before = int64(runtime.NumGoroutine())
	m.c = m.client(rdb)
	start := time.Now()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 128 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				l, err := m.c.Mutex(strconv.Itoa(i), holdfast.WithTTL(ttl)).Lock(context.Background())
				if err != nil {
					t.Errorf("lease %d: %v", i, err)
					return
				}
				m.leases[i], m.done[i] = l, l.Context().Done()
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("%d leases in %v", n, time.Since(start))
	stop := make(chan struct{})
	var watchers sync.WaitGroup
	watchers.Go(func() { m.watch(stop) })
	watchers.Go(func() { m.sweep(stop) })
	t.Cleanup(func() { close(stop); watchers.Wait() })
	return m
}

// watch counts goroutines.
func (m *many) watch(stop chan struct{}) {
	t := time.NewTicker(time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
		}
		if n := int64(runtime.NumGoroutine()); n > m.goroutines.Load() {
			m.goroutines.Store(n)
		}
	}
}

// sweep records which holders are notified. Until one is, it checks only some, since a round
// takes milliseconds of a processor that the client needs.
func (m *many) sweep(stop chan struct{}) {
	t := time.NewTicker(5 * time.Millisecond)
	defer t.Stop()
	for {
		each := 1
		if m.notified.Load() == 0 {
			each = 64
		}
		for i := 0; i < len(m.done); i += each {
			if !m.at[i].IsZero() {
				continue
			}
			done := m.done[i]
			select {
			case <-done:
				m.at[i] = time.Now()
				m.notified.Add(1)
			default:
			}
		}
		select {
		case <-stop:
			return
		case <-t.C:
		}
	}
}

// allKept checks that no lease was lost although the store was away for a quarter of
// the TTL, unless this process was stalled by its machine for as long again: then a third
// of the TTL since the last renewal and the two quarters leave a sixth, with the margin.
func (m *many) allKept(since time.Time) {
	m.Helper()
	causes := map[string]int{}
	for _, l := range m.leases {
		if err := l.Err(); err != nil {
			var lost *holdfast.LostError
			_ = errors.As(err, &lost)
			causes[lost.Cause.String()]++
		}
	}
	if stalled := m.stalls.Between(since, time.Now()); len(causes) > 0 && stalled < m.ttl/4 {
		m.Errorf("the store was away for a quarter of the TTL, the machine for %v, and leases were lost: %v", stalled, causes)
	}
}

func (m *many) awaitLosses() {
	m.Helper()
	limit := time.After(2*m.ttl + time.Minute)
	for m.notified.Load() < int64(len(m.leases)) {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-limit:
			m.Fatalf("%d of %d are notified", m.notified.Load(), len(m.leases))
		}
	}
}

// check checks when the holders were notified: before the store could give their
// leases away, that is a TTL after the last renewal was sent. With a TTL of 15 s all
// but one of a thousand have to be, unless this process was stalled by its machine
// for longer after the window had closed (TestAllLossesAreReportedFirst needs no clock).
func (m *many) check() {
	m.Helper()
	margin := keepalive.Margin(m.ttl)
	left := make([]time.Duration, len(m.leases)) // until the store's deadline
	late, unexplained := 0, 0
	for i, l := range m.leases {
		left[i] = l.Deadline().Add(margin).Sub(m.at[i])
		if left[i] <= 0 {
			late++
			if -left[i] > m.stalls.Between(l.Deadline(), m.at[i]) {
				unexplained++
			}
		}
	}
	slices.Sort(left)
	n := len(left)
	most := m.goroutines.Load() - m.before
	m.Logf("%d leases, TTL %v, margin %v: notified before the store's deadline by %v at least, %v (0.1%%), %v (1%%), %v (median), %v at most; %d late, %d of them by more than the machine's stalls; at most %d goroutines more",
		n, m.ttl, margin, left[0], left[n/1000], left[n/100], left[n/2], left[n-1], late, unexplained, most)
	if redistest.Long() && unexplained*1000 > n { // with a TTL of a second a machine in use is late now and then
		m.Errorf("%d of %d are notified late", unexplained, n)
	}
	if most > 200 {
		m.Errorf("%d goroutines", most)
	}
	for limit := time.After(time.Minute); m.hooked.Load() < int64(n); {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-limit:
			m.Fatalf("the hook was called for %d of %d", m.hooked.Load(), n)
		}
	}
	if got := m.hooked.Load(); got != int64(n) {
		m.Errorf("the hook was called for %d losses of %d leases", got, n)
	}
}
