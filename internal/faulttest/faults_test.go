package faulttest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// grace is how much longer than its ctx a call may take, plus what a loaded
// machine adds.
const grace = 400 * time.Millisecond

// The reply to an Acquire is lost after the server executed it. The client repeats
// the request under the same holder ID and gets the same lease: it does not wait for
// itself until the TTL runs out. On a quorum all replies are lost: the others would
// make a majority.
func TestReplyOfAcquireLost(t *testing.T) {
	w := newFixture(t)
	p := w.throughAll()
	c := w.client()
	w.release(w.lock(c.Mutex("warm-up").Lock))
	requireHit := p.loseReplies("stock:reply")
	start := time.Now()
	l := w.lock(c.Mutex("stock:reply").Lock)
	requireHit(t)
	w.within(start, 2*time.Second, "Lock, which must not wait for itself,")
	s, err := c.Snapshot(t.Context(), "stock:reply")
	if err != nil || len(s.Holders) != 1 || len(s.Waiters) != 0 || s.Holders[0].Token != l.Token() {
		t.Errorf("snapshot %+v, %v; want this lease alone", s, err)
	}
	w.release(l)
}

// The reply to a Release is lost. The repeated Release says that it was
// released, not that the lease was lost. On a quorum all replies are lost.
func TestReplyOfReleaseLost(t *testing.T) {
	w := newFixture(t)
	p := w.throughAll()
	c := w.client()
	l := w.lock(c.Mutex("stock:reply").Lock)
	requireHit := p.loseReplies("stock:reply")
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	requireHit(t)
	w.release(w.lock(c.Mutex("stock:reply").Lock))
}

// The ctx ends while the server hangs with the Acquire in its buffer. The call
// returns in time, and what the server executes later leaves nothing behind. On a
// quorum all nodes hang: with a majority the call would not end by its ctx.
func TestCtxEndsInMidAcquire(t *testing.T) {
	for _, try := range []string{"Lock", "TryLock"} {
		t.Run(try, func(t *testing.T) {
			w := newFixture(t)
			c := w.client()
			w.release(w.lock(c.Mutex("warm-up").Lock))
			w.each((*redistest.Server).Pause)
			cause := errors.New("the user went away")
			ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, cause)
			defer cancel()
			m := c.Mutex("stock:1", holdfast.WithTTL(time.Minute))
			call := m.Lock
			if try == "TryLock" {
				call = m.TryLock
			}
			start := time.Now()
			_, err := call(ctx)
			w.within(start, 200*time.Millisecond+grace, "the call")
			if !errors.Is(err, holdfast.ErrNotAcquired) || !errors.Is(err, cause) {
				t.Errorf("error %v is not both ErrNotAcquired and the cause", err)
			}
			w.each((*redistest.Server).Resume)
			w.nothingLeft() // the clean-up reaches the server
			w.release(w.lock(c.Mutex("stock:1").Lock))
		})
	}
}

// Every call returns soon after its ctx ends while the server hangs; on a quorum, all
// nodes.
func TestRedisHung(t *testing.T) {
	w := newFixture(t)
	c := w.client()
	held := w.lock(c.Mutex("held", holdfast.WithTTL(time.Second)).Lock)
	detached := w.lock(c.Mutex("detached").Lock)
	waiter := make(chan error, 1)
	w.each((*redistest.Server).Pause)
	limit := 150 * time.Millisecond
	call := func(name string, f func(ctx context.Context) error) {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		start := time.Now()
		err := f(ctx)
		w.within(start, limit+grace, name)
		if err == nil {
			t.Errorf("%s: no error although the server hangs", name)
		}
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		_, err := c.Mutex("held").Lock(ctx)
		waiter <- err
	}()
	call("Lock", func(ctx context.Context) error { _, err := c.Mutex("a").Lock(ctx); return err })
	call("TryLock", func(ctx context.Context) error { _, err := c.Mutex("b").TryLock(ctx); return err })
	call("Snapshot", func(ctx context.Context) error { _, err := c.Snapshot(ctx, "a"); return err })
	call("Break", func(ctx context.Context) error { return c.Break(ctx, "a", "x.y") })
	call("Detach", func(ctx context.Context) error { _, err := detached.Detach(ctx); return err })
	call("List", func(ctx context.Context) error {
		for _, err := range c.List(ctx, "*") {
			return err
		}
		return nil
	})
	if e := w.lost(held); e.Cause != holdfast.LostUnreachable {
		t.Errorf("the holder got %v, want unreachable", e.Cause)
	}
	call("Release", detached.Release)
	if err := <-waiter; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("waiter: %v", err)
	}
	w.each((*redistest.Server).Resume)
	w.nothingLeft()
}

// A holder is killed. The next one enters when the lease has ended in the store,
// not before, and soon after.
func TestHolderKilled(t *testing.T) {
	w := newFixture(t)
	const ttl = time.Second
	p := w.start("hold", task{Resource: "stock:1", TTL: ttl, Counter: "fenced"})
	p.expect("held")
	c := w.client()
	ch := startLock(t.Context(), c.Mutex("stock:1").Lock)
	w.waiting(c, "stock:1", 1)
	p.kill()
	before := time.Now()
	s, err := c.Snapshot(t.Context(), "stock:1")
	if err != nil || len(s.Holders) != 1 {
		t.Fatalf("snapshot %+v, %v", s, err)
	}
	seen, left := time.Now(), s.Holders[0].TTL // of a time between the two
	r := w.granted(ch)
	early, late := before.Add(left).Sub(r.at), r.at.Sub(seen.Add(left))
	t.Logf("entered %v after the lease ended in the store", late)
	if early > 5*time.Millisecond {
		redistest.Broken(t, "entered %v before the lease's end", early)
	}
	w.stalls.WithinAt(t, seen.Add(left), r.at, 500*time.Millisecond, "to enter after the lease's end")
	w.release(r.lease)
}

// A holder is stopped past its TTL and resumed. It learns of the loss before its
// next line relies on the lease, and its late write is refused.
func TestHolderPausedPastItsTTL(t *testing.T) {
	w := newFixture(t)
	p := w.start("hold", task{Resource: "stock:1", TTL: time.Second, Counter: "fenced"}) // longer than most stalls of a machine
	old := p.expect("held")
	p.send("write")
	if got := p.expect("lost="); got != "false ctx=false wrote=true" {
		t.Fatalf("before the pause: lost=%s", got)
	}
	p.signal(syscall.SIGSTOP)
	c := w.client()
	l := w.lock(c.Mutex("stock:1").Lock)
	if fmt.Sprint(l.Token()) <= old {
		redistest.Broken(t, "token %d is not above %s", l.Token(), old)
	}
	rdb := w.redis.Client()
	if ok, err := fencedWrite(t.Context(), rdb, "fenced", l.Token()); !ok || err != nil {
		t.Fatalf("the new holder's write: %v %v", ok, err)
	}
	p.send("write") // read as soon as it runs again
	p.signal(syscall.SIGCONT)
	if got := p.expect("lost="); got != "true ctx=true wrote=false" {
		t.Errorf("after the pause: lost=%s, want lost, notified, and the write refused", got)
	}
	w.release(l)
	p.finish()
}

// The server is killed and comes back empty, under a holder and waiters. On a quorum
// all nodes do: exclusion is not promised then, but that the holder is notified, that the
// waiters go on, and that tokens grow.
func TestRedisRestartUnderWaiters(t *testing.T) {
	w := newFixture(t)
	c, other := w.client(), w.client()
	l := w.lock(c.Mutex("stock:1", holdfast.WithTTL(2*time.Second)).Lock)
	var waits []<-chan result
	for i := range 4 {
		m := []*holdfast.Client{c, other}[i%2].Mutex("stock:1", holdfast.WithoutTenure())
		waits = append(waits, startLock(t.Context(), m.Lock))
	}
	w.waiting(c, "stock:1", 4)
	w.each((*redistest.Server).Kill)
	w.each((*redistest.Server).Restart)
	back := time.Now()
	// A node of a cluster takes two seconds after a start before it answers.
	late := os.Getenv(topologyEnv) == "cluster"
	if e := w.lost(l); e.Cause != holdfast.LostDeleted && e.Cause != holdfast.LostTaken && !(late && e.Cause == holdfast.LostUnreachable) {
		t.Errorf("the holder got %v", e.Cause)
	}
	tokens := map[uint64]bool{l.Token(): true}
	merged := make(chan result, len(waits))
	for _, ch := range waits {
		go func() { merged <- <-ch }()
	}
	for range waits {
		r := w.granted(merged)
		if r.lease.Token() <= l.Token() || tokens[r.lease.Token()] {
			redistest.Broken(t, "token %d after %d: the store forgot", r.lease.Token(), l.Token())
		}
		tokens[r.lease.Token()] = true
		w.release(r.lease)
	}
	t.Logf("all served %v after the server was back", time.Since(back))
}

// The same with data that survive: no lease is lost. On a quorum all nodes are
// away at once.
func TestRedisRestartWithData(t *testing.T) {
	w := newFixture(t, redistest.WithAppendOnly(), redistest.WithArgs("--appendfsync", "always"))
	c := w.client()
	l := w.lock(c.Mutex("stock:1", holdfast.WithTTL(10*time.Second)).Lock)
	ch := startLock(t.Context(), w.client().Mutex("stock:1").Lock)
	w.waiting(c, "stock:1", 1)
	w.each((*redistest.Server).Kill)
	w.each((*redistest.Server).Restart)
	if l.Err() != nil {
		t.Errorf("the holder lost its lease: %v", l.Err())
	}
	w.eventually("the store answers", func() bool { _, err := c.Snapshot(t.Context(), "stock:1"); return err == nil })
	w.release(l)
	r := w.get(ch)
	if r.err != nil || r.lease.Token() <= l.Token() {
		t.Fatalf("waiter: %+v", r)
	}
	w.release(r.lease)
}

// FLUSHALL under a holder and a waiter: the holder is notified at its next renewal,
// the waiter enters, and its token is above all before. On a quorum all nodes forget.
func TestFlushAll(t *testing.T) {
	w := newFixture(t)
	c := w.client()
	const ttl = 1500 * time.Millisecond
	l := w.lock(c.Mutex("stock:1", holdfast.WithTTL(ttl)).Lock)
	ch := startLock(t.Context(), w.client().Mutex("stock:1").Lock)
	w.waiting(c, "stock:1", 1)
	w.on(w.nodes, func(rdb *redis.Client) error { return rdb.FlushAll(t.Context()).Err() })
	flushed := time.Now()
	w.lost(l)
	w.within(flushed, ttl/3+grace, "to notify the holder")
	r := w.get(ch)
	if r.err != nil || r.lease.Token() <= l.Token() {
		t.Fatalf("waiter: %+v, holder before had %d", r, l.Token())
	}
	w.release(r.lease)
	if err := l.Release(t.Context()); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Release of the lost lease: %v", err)
	}
}

// SCRIPT FLUSH costs a resend, nothing else; on a quorum, on all nodes.
func TestScriptFlush(t *testing.T) {
	w := newFixture(t)
	c := w.client()
	flush := func(rdb *redis.Client) error { return rdb.ScriptFlush(t.Context()).Err() }
	for i := range 3 {
		l := w.lock(c.Mutex("stock:1", holdfast.WithTTL(2*time.Second)).Lock) // longer than a stall of the machine
		w.on(w.nodes, flush)
		w.waitRenewal(l)
		w.on(w.nodes, flush)
		if err := l.Release(t.Context()); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
	}
}

// acl gives a user of the servers rights; on a quorum, of all of them.
func (w *fixture) acl(rules ...any) {
	w.t.Helper()
	w.on(w.nodes, func(rdb *redis.Client) error {
		return rdb.Do(w.t.Context(), append([]any{"ACL", "SETUSER", "app"}, rules...)...).Err()
	})
}

// What waiting cannot mend comes back at once, with what to look at.
func TestNoPerm(t *testing.T) {
	w := newFixture(t)
	w.acl("on", ">secret", "~*", "&*", "+@all", "-evalsha", "-eval")
	c := w.clientAs("app", "secret")
	for name, call := range map[string]func(context.Context) (*holdfast.Lease, error){
		"Lock": c.Mutex("stock:1").Lock, "TryLock": c.Mutex("stock:1").TryLock,
	} {
		start := time.Now()
		_, err := call(t.Context())
		if !errors.Is(err, holdfast.ErrDenied) || !strings.Contains(fmt.Sprint(err), "NOPERM") {
			t.Errorf("%s: %v; want ErrDenied with what Redis said", name, err)
		}
		w.within(start, time.Second, name)
	}
}

// The right to subscribe is missing: a waiter fails at once, and leaves
// the queue.
func TestNoPermToSubscribe(t *testing.T) {
	w := newFixture(t)
	w.acl("on", ">secret", "~*", "resetchannels", "+@all")
	l := w.lock(w.client().Mutex("stock:1").Lock)
	c := w.clientAs("app", "secret")
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	if _, err := c.Mutex("stock:1").Lock(ctx); !errors.Is(err, holdfast.ErrDenied) {
		t.Errorf("Lock: %v; want ErrDenied", err)
	}
	w.waiting(c, "stock:1", 0)
	w.release(l)
}

// Rights are taken away during a wait. It cannot leave the queue any more, which
// costs those behind it a claim window.
func TestNoPermUnderWaiter(t *testing.T) {
	w := newFixture(t)
	w.acl("on", ">secret", "~*", "&*", "+@all")
	m := w.client().Mutex("stock:1")
	l := w.lock(m.Lock)
	c := w.clientAs("app", "secret")
	ch := startLock(t.Context(), c.Mutex("stock:1").Lock)
	w.waiting(c, "stock:1", 1)
	w.acl("-evalsha", "-eval")
	if r := w.get(ch); !errors.Is(r.err, holdfast.ErrDenied) {
		t.Errorf("waiter: %v; want ErrDenied", r.err)
	}
	w.release(l)
	start := time.Now()
	w.release(w.lock(m.Lock))
	w.within(start, engine.ClaimWindow+grace, "the next lease")
}

// A foreign key stands where the resource's state should be; on a quorum, on all nodes.
func TestWrongType(t *testing.T) {
	w := newFixture(t)
	c := w.client()
	w.release(w.lock(c.Mutex("stock:1").Lock))
	keys := w.keysOf("stock:1")
	w.on(w.nodes, func(rdb *redis.Client) (err error) {
		for _, key := range keys {
			err = errors.Join(err, rdb.Set(t.Context(), key, "a foreign value", time.Minute).Err())
		}
		return err
	})
	start := time.Now()
	if _, err := c.Mutex("stock:1").Lock(t.Context()); !errors.Is(err, holdfast.ErrDenied) || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("Lock: %v; want ErrDenied with WRONGTYPE", err)
	}
	w.within(start, time.Second, "Lock")
	w.on(w.nodes, func(rdb *redis.Client) error { return rdb.Del(t.Context(), keys...).Err() })
	w.release(w.lock(c.Mutex("stock:1").Lock))
}

// The client closes with a holder and with waiters, some of them in the store's
// queue and some behind those.
func TestCloseWithWaiters(t *testing.T) {
	w := newFixture(t)
	c, other := w.client(), w.client()
	l := w.lock(other.Mutex("stock:1").Lock)
	mine := w.lock(c.Mutex("stock:2").Lock)
	var waits []<-chan result
	for range 5 {
		waits = append(waits, startLock(t.Context(), c.Mutex("stock:1").Lock))
		waits = append(waits, startLock(t.Context(), c.Mutex("stock:1", holdfast.WithoutTenure()).Lock))
	}
	w.waiting(other, "stock:1", 6)
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	for _, ch := range waits {
		if r := w.get(ch); !errors.Is(r.err, holdfast.ErrClosed) || !errors.Is(r.err, holdfast.ErrNotAcquired) {
			t.Errorf("waiter: %+v; want ErrClosed", r)
		}
	}
	if !errors.Is(mine.Err(), holdfast.ErrReleased) {
		t.Errorf("Err of a lease of the closed client: %v", mine.Err())
	}
	w.waiting(other, "stock:1", 0)
	w.release(w.lock(other.Mutex("stock:2").Lock))
	w.release(l)
}
