package holdfast_test

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/internal/keepalive"
)

func TestDetachAndAdopt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		c, other := newClient(t, e), newClient(t, e)
		l := mustLock(t, c.Mutex("x", holdfast.WithTTL(10*time.Second)).Lock, context.Background())
		local := lockSoon(context.Background(), c.Mutex("x", holdfast.WithTTL(10*time.Second)).Lock)
		time.Sleep(4 * time.Second)
		ticket, err := l.Detach(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		wantErr(t, l.Err(), holdfast.ErrReleased)
		wantErr(t, l.Release(context.Background()), holdfast.ErrNotHeld)
		_, err = l.Detach(context.Background())
		wantErr(t, err, holdfast.ErrNotHeld)
		if s := look(t, e, "x"); len(s.Holders) != 1 || s.Holders[0].TTL != 10*time.Second {
			t.Errorf("after Detach: %+v", s.Holders)
		}
		time.Sleep(9 * time.Second)
		adopted, err := other.Adopt(context.Background(), ticket)
		if err != nil {
			t.Fatal(err)
		}
		if adopted.Token() != l.Token() || adopted.HolderID() != l.HolderID() || adopted.Tokens()["x"] != l.Token() {
			t.Errorf("adopted token %d, ID %s", adopted.Token(), adopted.HolderID())
		}
		time.Sleep(time.Hour) // it is renewed now
		if adopted.Err() != nil {
			t.Fatal(adopted.Err())
		}
		mustRelease(t, adopted)
		r := <-local
		if r.err != nil || r.lease.Token() <= adopted.Token() {
			t.Fatalf("the caller behind: %v", r.err)
		}
		mustRelease(t, r.lease)
		wantEmpty(t, e, "x")
		_, err = other.Adopt(context.Background(), ticket)
		wantErr(t, err, holdfast.ErrLost)
	})
}

func TestDetachedLeaseExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		c := newClient(t, e)
		l := mustLock(t, c.Mutex("x", holdfast.WithTTL(10*time.Second)).Lock, context.Background())
		ticket, err := l.Detach(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		_, err = c.Adopt(context.Background(), ticket)
		wantLost(t, err, holdfast.LostExpired)
		mustRelease(t, mustLock(t, c.Mutex("x").Lock, context.Background()))
		mustRelease(t, mustLock(t, c.Mutex("x", holdfast.WithTTL(10*time.Second)).Lock, context.Background()))
	})
}

func TestDetachWithoutRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		c := newClient(t, e)
		l := mustLock(t, c.Mutex("x", holdfast.WithTTL(10*time.Second), holdfast.WithoutRenewal()).Lock, context.Background())
		ticket, err := l.Detach(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		adopted, err := c.Adopt(context.Background(), ticket)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		<-adopted.Done()
		wantLost(t, adopted.Err(), holdfast.LostExpired)
		if took := time.Since(start); took >= 10*time.Second {
			t.Errorf("ended after %v", took)
		}
		time.Sleep(220 * time.Millisecond) // the margin
		synctest.Wait()
		wantEmpty(t, e, "x")
	})
}

func TestDetachOfReentrantLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		m := newClient(t, e).Mutex("x", holdfast.WithReentrancy())
		outer := mustLock(t, m.Lock, context.Background())
		inner := mustLock(t, m.Lock, outer.Context())
		_, err := outer.Detach(context.Background())
		wantErr(t, err, holdfast.ErrNotHeld)
		if outer.Err() != nil || inner.Err() != nil {
			t.Error("a refused Detach changed something")
		}
		mustRelease(t, inner)
		mustRelease(t, outer)
	})
}

func TestDetachFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		l := mustLock(t, c.Mutex("x").Lock, context.Background())
		e.All(down)
		_, err := l.Detach(context.Background())
		wantErr(t, err, holdfast.ErrUnavailable)
		e.All(nil)
		if l.Err() != nil {
			t.Errorf("a failed Detach ended the lease: %v", l.Err())
		}
		if err := c.Break(context.Background(), "x", l.HolderID()); err != nil {
			t.Fatal(err)
		}
		_, err = l.Detach(context.Background())
		wantLost(t, err, holdfast.LostBroken)
		wantErr(t, l.Err(), holdfast.ErrLost)
		_, err = l.Detach(context.Background())
		wantErr(t, err, holdfast.ErrLost)
	})
}

// A lease that is lost while Detach renews it is reported as lost.
func TestDetachOfALeaseThatIsLostMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := listening(t, e)
		l := mustLock(t, c.Mutex("x").Lock, context.Background())
		e.Set(func() {
			e.OnRenew = func(ctx context.Context, batch []engine.Renewal) []error {
				errs := e.Engine.Renew(ctx, batch)
				if err := e.Engine.Break(ctx, batch[0].Resource, engine.Break{ID: batch[0].ID}); err != nil {
					t.Error(err)
				}
				<-l.Done()
				return errs
			}
		})
		_, err := l.Detach(context.Background())
		wantLost(t, err, holdfast.LostBroken)
		wantErr(t, l.Release(context.Background()), holdfast.ErrLost)
		wantEmpty(t, e.Engine, "x")
	})
}

func TestAdoptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		l := mustLock(t, c.Mutex("x", holdfast.WithTTL(time.Minute)).Lock, context.Background())
		ticket, err := l.Detach(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		e.All(hang)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err = c.Adopt(ctx, ticket)
		wantErr(t, err, holdfast.ErrUnavailable)
		e.All(denied)
		_, err = c.Adopt(context.Background(), ticket)
		wantErr(t, err, holdfast.ErrDenied)
		e.All(nil)
		again, err := c.Adopt(context.Background(), ticket) // the ticket is still good
		if err != nil {
			t.Fatal(err)
		}
		mustRelease(t, again)
		wantEmpty(t, e.Engine, "x")
	})
}

// A client does not hold a lease twice: it would renew, release and close only one of the two.
func TestAdoptTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		c := newClient(t, e)
		ticket, err := mustLock(t, c.Mutex("x").Lock, context.Background()).Detach(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		l, err := c.Adopt(context.Background(), ticket)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Adopt(context.Background(), ticket)
		wantErr(t, err, holdfast.ErrInvalid)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wantErr(t, l.Err(), holdfast.ErrReleased)
		wantEmpty(t, e, "x")
	})
}

// A ticket whose numbers cannot be is refused without a call to the store.
func TestTicketOfAnImpossibleWeight(t *testing.T) {
	c := newClient(t, memory.New())
	text, err := mustLock(t, c.Mutex("x").Lock, t.Context()).Detach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	mark, body, _ := strings.Cut(text, ".")
	whole, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil {
		t.Fatal(err)
	}
	for _, weight := range []string{"0", "-1", "2", "4294967297"} {
		changed := strings.Replace(string(whole), `"w":1`, `"w":`+weight, 1)
		if changed == string(whole) {
			t.Fatalf("no weight in %s", whole)
		}
		_, err := c.Adopt(t.Context(), mark+"."+base64.RawURLEncoding.EncodeToString([]byte(changed)))
		wantErr(t, err, holdfast.ErrInvalid)
	}
	l, err := c.Adopt(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	mustRelease(t, l)
}

// Names of two prefixes are two resources: to hold one of them under an adopted
// lease does not stand in the way of the other.
func TestAdoptedLeaseOfAnotherPrefix(t *testing.T) {
	e := memory.New()
	a, b := newClient(t, e, holdfast.WithPrefix("app-a")), newClient(t, e, holdfast.WithPrefix("app-b"))
	ticket, err := mustLock(t, a.Mutex("x").Lock, t.Context()).Detach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	adopted, err := b.Adopt(t.Context(), ticket)
	if err != nil {
		t.Fatal(err)
	}
	for name, lock := range map[string]func(ctx context.Context) (*holdfast.Lease, error){
		"TryLock": b.Mutex("x").TryLock, "Lock": b.Mutex("x").Lock, "Multi": b.Multi([]string{"x", "y"}).Lock,
		"re-entry": b.Mutex("x", holdfast.WithReentrancy()).Lock,
	} {
		own, err := lock(adopted.Context())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if inner, err := lock(own.Context()); name == "re-entry" {
			mustRelease(t, inner)
		} else {
			wantErr(t, err, holdfast.ErrDeadlock)
		}
		if own.HolderID() == adopted.HolderID() {
			t.Errorf("%s entered the lease of the other prefix", name)
		}
		mustRelease(t, own)
	}
	if _, err := a.Mutex("x").TryLock(t.Context()); err == nil {
		t.Error("the adopted lease does not hold its own resource")
	}
	mustRelease(t, adopted)
}

// The trust window of an adopted lease counts from when Adopt sent its renewal, however late
// the answer is.
func TestAdoptedLeaseCountsFromTheSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		const ttl = 10 * time.Second
		ticket, err := mustLock(t, c.Mutex("x", holdfast.WithTTL(ttl)).Lock, context.Background()).Detach(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		e.Slow(0, 2*time.Second)
		sent := time.Now()
		l, err := c.Adopt(context.Background(), ticket)
		if err != nil {
			t.Fatal(err)
		}
		if open := l.Deadline().Sub(sent); open != ttl-keepalive.Margin(ttl) {
			t.Errorf("the trust window is open for %v after the request was sent", open)
		}
		if ticket, err = l.Detach(context.Background()); err != nil {
			t.Fatal(err)
		}
		e.Slow(0, ttl)
		_, err = c.Adopt(context.Background(), ticket)
		wantErr(t, err, holdfast.ErrUnavailable)
		e.All(nil)
	})
}

// A Detach that fails changes nothing: others join the lease afterwards.
func TestDetachOfAReaderThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, own, _, _ := reading(t)
		first := mustLock(t, own.RLock, t.Context())
		e.Set(func() {
			e.OnRenew = func(ctx context.Context, batch []engine.Renewal) []error { return []error{down(ctx)} }
		})
		_, err := first.Detach(t.Context())
		wantErr(t, err, holdfast.ErrUnavailable)
		e.Set(func() { e.OnRenew = func(context.Context, []engine.Renewal) []error { panic(errTrap) } })
		if isolated(func() { _, _ = first.Detach(context.Background()) }) != errTrap {
			t.Error("the engine did not panic")
		}
		e.All(nil)
		calls(t, e, "acquire", 0, func() { mustRelease(t, mustLock(t, own.RLock, t.Context())) })
		mustRelease(t, first)
		wantEmpty(t, e, "x")
	})
}

// An operator breaks a detached lease: Adopt returns that it is lost, and releases it, which nobody else can.
func TestAdoptOfABrokenLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		c, other := newClient(t, e), newClient(t, e)
		l := mustLock(t, c.Mutex("x", holdfast.WithTTL(time.Hour)).Lock, t.Context())
		id := l.HolderID()
		ticket, err := l.Detach(t.Context())
		must(t, err)
		must(t, other.Break(t.Context(), "x", id))
		_, err = c.Adopt(t.Context(), ticket)
		wantErr(t, err, holdfast.ErrLost)
		start := time.Now()
		mustRelease(t, mustLock(t, other.Mutex("x").Lock, t.Context()))
		if took := time.Since(start); took > time.Second {
			t.Errorf("free after %v", took)
		}
	})
}
