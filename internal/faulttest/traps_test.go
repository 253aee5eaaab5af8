package faulttest

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The traps that other locks fell into, one test each; those that are faults in
// themselves stand in faults_test.go and those about fairness in load_test.go.

// A holder that is cut off is notified before another is granted. Peers notified it 0.9 s
// after.
func TestNotifiedBeforeAnotherEnters(t *testing.T) {
	for _, ttl := range []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second} {
		t.Run(ttl.String(), func(t *testing.T) {
			w := newFixture(t)
			straight := w.client()
			p := w.throughAll()
			c := w.client()
			l := w.lock(c.Mutex("stock:1", holdfast.WithTTL(ttl)).Lock)
			lostAt := make(chan time.Time, 1)
			go func() {
				<-l.Context().Done()
				lostAt <- time.Now()
			}()
			ch := startLock(t.Context(), straight.Mutex("stock:1").Lock)
			w.waiting(straight, "stock:1", 1)
			p.blackhole()
			defer p.heal()
			r := w.granted(ch)
			select {
			case at := <-lostAt:
				t.Logf("notified %v before the next one entered", r.at.Sub(at))
				if !at.Before(r.at) {
					t.Errorf("notified %v after another had entered", at.Sub(r.at))
				}
			default:
				t.Error("another entered and the holder was not notified")
			}
			if e := w.lost(l); e.Cause != holdfast.LostUnreachable {
				t.Errorf("cause %v", e.Cause)
			}
			w.release(r.lease)
		})
	}
}

// A renewal never makes a lost lease again: another may have held and released
// in between.
func TestRenewalDoesNotRecreate(t *testing.T) {
	w := newFixture(t)
	c := w.client()
	l := w.lock(c.Mutex("stock:1", holdfast.WithTTL(3*time.Second)).Lock) // longer than a stall of the machine
	keys := w.keysOf("stock:1")
	w.on(w.nodes, func(rdb *redis.Client) error { return rdb.Del(t.Context(), keys...).Err() })
	if e := w.lost(l); e.Cause != holdfast.LostDeleted {
		t.Errorf("cause %v, want deleted", e.Cause)
	}
	s, err := c.Snapshot(t.Context(), "stock:1")
	if err != nil || len(s.Holders) != 0 {
		t.Errorf("snapshot %+v, %v", s, err)
	}
}

// A TTL too short to lock anything is an error, not a lock that does nothing.
func TestTTLTooShort(t *testing.T) {
	w := newFixture(t)
	c := w.client()
	for _, ttl := range []time.Duration{-1, 0, time.Microsecond, 99 * time.Millisecond, 25 * time.Hour} {
		if _, err := c.Mutex("stock:1", holdfast.WithTTL(ttl)).Lock(t.Context()); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("TTL %v: %v", ttl, err)
		}
	}
}

// Identities are compared whole: the beginning of a holder ID breaks nothing.
func TestIdentityIsComparedWhole(t *testing.T) {
	w := newFixture(t)
	c := w.client()
	l := w.lock(c.Mutex("stock:1").Lock)
	id := l.HolderID()
	for _, other := range []string{id[:len(id)-1], id + "x", strings.ToUpper(id), "*", id[:1]} {
		if other == id {
			continue
		}
		if err := c.Break(t.Context(), "stock:1", other); !errors.Is(err, holdfast.ErrNotHeld) {
			t.Errorf("Break %q: %v", other, err)
		}
	}
	if l.Err() != nil {
		t.Error(l.Err())
	}
	w.release(l)
}

// No client clock reaches the store: the only times in a command are durations.
func TestNoClientClockInTheStore(t *testing.T) {
	w := newFixture(t)
	c := w.client()
	// A connection of its own: go-redis's monitor does not end with its client.
	monitor, err := net.Dial("tcp", w.redis.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer monitor.Close()
	if _, err := monitor.Write([]byte("MONITOR\r\n")); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(monitor)
	if !lines.Scan() || lines.Text() != "+OK" {
		t.Fatal("MONITOR: ", lines.Text(), lines.Err())
	}
	l := w.lock(c.Mutex("stock:1", holdfast.WithTTL(300*time.Millisecond)).Lock)
	w.waitRenewal(l)
	w.release(l)
	if err := monitor.SetReadDeadline(time.Now().Add(waitTimeout)); err != nil {
		t.Fatal(err)
	}
	for evals := 0; evals < 3; {
		if !lines.Scan() {
			t.Fatalf("saw %d commands only: %v", evals, lines.Err())
		}
		// What the scripts do inside is marked "lua" and goes by the store's time.
		_, command, _ := strings.Cut(lines.Text(), "]")
		if strings.Contains(lines.Text(), " lua]") || !strings.Contains(strings.ToLower(command), `"eval`) {
			continue
		}
		evals++
		requireNoInstant(t, command, l.Token())
	}
}

// requireNoInstant fails if an argument of the script call is a number so large that it
// could be a time. The token is one, and comes from the store.
func requireNoInstant(t *testing.T, command string, token uint64) {
	t.Helper()
	for _, argument := range quoted(t, command)[2:] { // after EVAL and the script, which has its own numbers
		for _, digits := range strings.Fields(argument) {
			if len(digits) >= 10 && strings.Trim(digits, "0123456789") == "" && digits != strconv.FormatUint(token, 10) {
				t.Errorf("%s: %s looks like an instant", argument, digits)
			}
		}
	}
}

// quoted splits what MONITOR shows of a command.
func quoted(t *testing.T, command string) []string {
	t.Helper()
	var all []string
	for rest := strings.TrimSpace(command); rest != ""; rest = strings.TrimSpace(rest) {
		next, err := strconv.QuotedPrefix(rest)
		if err != nil {
			t.Fatalf("%q: %v", command, err)
		}
		text, err := strconv.Unquote(next)
		if err != nil {
			t.Fatalf("%q: %v", command, err)
		}
		all, rest = append(all, text), rest[len(next):]
	}
	return all
}

// An idle held lease costs one renewal an interval. A peer sent 12,800 commands
// a second.
func TestIdleLeaseCost(t *testing.T) {
	w := newFixture(t)
	c := w.client()
	const ttl, intervals = 1500 * time.Millisecond, 12
	rdb := w.redis.Client()
	l := w.lock(c.Mutex("stock:1", holdfast.WithTTL(ttl)).Lock)
	w.waitRenewal(l) // connections and subscription are made at the first one
	before := evals(t, rdb)
	for range intervals {
		w.waitRenewal(l)
	}
	sent := evals(t, rdb) - before
	t.Logf("%d commands in %d intervals", sent, intervals)
	if sent < intervals-1 || sent > intervals+1 {
		t.Errorf("%d commands in %d intervals", sent, intervals)
	}
	w.release(l)
}

// A waiter that died at the front costs those behind it one claim window at the
// most, however many died. A peer blocked a free lock for five minutes.
func TestDeadWaitersAtTheFront(t *testing.T) {
	w := newFixture(t)
	c := w.client()
	l := w.lock(c.Mutex("stock:1").Lock)
	var dead []*process
	for n := range 3 {
		p := w.start("wait", task{Resource: "stock:1", TTL: 15 * time.Second})
		p.expect("waiting")
		w.waiting(c, "stock:1", n+1)
		dead = append(dead, p)
	}
	ch := startLock(t.Context(), w.client().Mutex("stock:1").Lock)
	w.waiting(c, "stock:1", 4)
	for _, p := range dead {
		p.kill()
	}
	w.release(l)
	start := time.Now()
	r := w.granted(ch)
	w.stalls.WithinAt(t, start, r.at, 3*time.Second+grace, "to enter after the release")
	w.release(r.lease)
}

// A live waiter keeps its place, however often it polls and however long it waits.
func TestLiveWaiterKeepsItsPlace(t *testing.T) {
	w := newFixture(t)
	c := w.client()
	l := w.lock(c.Mutex("stock:1").Lock)
	first := startLock(t.Context(), w.client().Mutex("stock:1").Lock)
	w.waiting(c, "stock:1", 1)
	second := startLock(t.Context(), w.client().Mutex("stock:1").Lock)
	w.waiting(c, "stock:1", 2)
	// Longer than a waiter lives without a poll: both have polled by then.
	select {
	case <-first:
		t.Fatal("entered while held")
	case <-second:
		t.Fatal("entered while held")
	case <-time.After(4 * time.Second):
	}
	w.waiting(c, "stock:1", 2)
	w.release(l)
	r := w.granted(first)
	w.release(r.lease)
	r2 := w.get(second)
	if r2.err != nil || r2.lease.Token() <= r.lease.Token() {
		t.Fatalf("second: %+v", r2)
	}
	w.release(r2.lease)
}

// A stale holder's token stays its own: it can never read its successor's.
func TestStaleHolderKeepsItsToken(t *testing.T) {
	w := newFixture(t)
	c := w.client()
	old := w.lock(c.Mutex("stock:1", holdfast.WithTTL(200*time.Millisecond), holdfast.WithoutRenewal()).Lock)
	token := old.Token()
	next := w.lock(w.client().Mutex("stock:1").Lock)
	if old.Token() != token || old.Token() >= next.Token() {
		t.Errorf("stale holder reads %d, had %d; successor has %d", old.Token(), token, next.Token())
	}
	if err := old.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Release by the stale holder: %v", err)
	}
	if next.Err() != nil {
		t.Error("the successor was hurt:", next.Err())
	}
	w.release(next)
}

// A lost wake-up costs at most one poll.
func TestLostWakeUp(t *testing.T) {
	w := newFixture(t)
	c := w.client()
	var p proxies
	if onMiniredis() { // it has no CLIENT KILL
		p = w.throughAll()
	}
	other := w.client()
	l := w.lock(c.Mutex("stock:1").Lock)
	ch := startLock(t.Context(), other.Mutex("stock:1").Lock)
	w.waiting(c, "stock:1", 1)
	// Kill the subscription and pass the lease on while it is away.
	if onMiniredis() {
		p.cut()
	} else {
		w.on(w.nodes, func(rdb *redis.Client) error {
			return rdb.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err()
		})
	}
	w.release(l)
	start := time.Now()
	r := w.granted(ch)
	w.stalls.WithinAt(t, start, r.at, 1100*time.Millisecond+grace, "to enter after the release")
	w.release(r.lease)
}

// The holder is notified of an operator's break at once, with a waiter behind it and without.
// The next one enters when the holder has released the lease, and not before; by
// force it does so at once.
func TestBreakNotifiesTheHolder(t *testing.T) {
	w := newFixture(t)
	for _, name := range []string{"alone", "with a waiter", "by force"} {
		c, other := w.client(), w.client()
		l := w.lock(c.Mutex(name).Lock) // no renewal within the test
		w.eventually("the holder listens", func() bool { return subscribers(t, w) == 1 })
		ch := make(<-chan result)
		if name != "alone" {
			ch = startLock(t.Context(), other.Mutex(name).Lock)
			w.waiting(other, name, 1)
		}
		var opts []holdfast.BreakOption
		if name == "by force" {
			opts = append(opts, holdfast.Force())
		}
		start := time.Now()
		if err := other.Break(context.Background(), name, l.HolderID(), opts...); err != nil {
			t.Fatal(err)
		}
		if e := w.lost(l); e.Cause != holdfast.LostBroken {
			t.Errorf("%s: cause %v", name, e.Cause)
		}
		t.Logf("%s: the holder is notified after %v", name, time.Since(start))
		w.within(start, 100*time.Millisecond+grace, name+": to notify the holder")
		if name == "by force" {
			w.release(w.get(ch).lease)
		} else if _, err := w.client().Mutex(name).TryLock(t.Context()); !errors.Is(err, holdfast.ErrNotAcquired) || len(ch) > 0 {
			redistest.Broken(t, "%s: another could enter while the holder is inside: %v, %d", name, err, len(ch))
		}
		if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Errorf("%s: Release: %v", name, err)
		}
		switch name {
		case "alone":
			w.release(w.lock(other.Mutex(name).Lock))
		case "with a waiter":
			w.release(w.get(ch).lease)
		}
		for _, c := range []*holdfast.Client{c, other} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		w.eventually("no client listens", func() bool { return subscribers(t, w) == 0 })
	}
}

// One name cannot be two kinds of lock at once: they would delete each other's
// state. Two capacities are as bad.
func TestOneNameAsTwoKinds(t *testing.T) {
	w := newFixture(t)
	c := w.client()
	l := w.lock(c.Mutex("stock:1").Lock)
	for name, try := range map[string]func(context.Context) (*holdfast.Lease, error){
		"reader": c.RWMutex("stock:1").TryRLock,
		"writer": w.client().RWMutex("stock:1").Lock,
		"permit": func(ctx context.Context) (*holdfast.Lease, error) {
			return c.Semaphore("stock:1", 3).TryAcquire(ctx, 1)
		},
	} {
		if _, err := try(t.Context()); !errors.Is(err, holdfast.ErrMismatch) {
			t.Errorf("%s: %v; want ErrMismatch", name, err)
		}
	}
	if l.Err() != nil {
		t.Error(l.Err())
	}
	w.release(l)
	three := w.lock(units(c.Semaphore("stock:1", 3), 1))
	if _, err := c.Semaphore("stock:1", 4).TryAcquire(t.Context(), 1); !errors.Is(err, holdfast.ErrMismatch) {
		t.Errorf("another capacity: %v; want ErrMismatch", err)
	}
	w.release(three)
}
