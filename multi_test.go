package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/keepalive"
)

// wantHeldBy checks the holder of each name; "" means that there is none.
func wantHeldBy(t testing.TB, e engine.Engine, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for name := range want {
		got[name] = ""
		for _, h := range look(t, e, name).Holders {
			got[name] += h.ID
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("held: %v; want %v", got, want)
	}
}

func TestMultiHoldsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		l := mustLock(t, newClient(t, e).Multi([]string{"c", "a", "b", "c"}).Lock, context.Background())
		tokens := map[string]uint64{}
		for _, name := range []string{"a", "b", "c"} {
			s := look(t, e, name)
			if len(s.Holders) != 1 {
				t.Fatalf("%s: holders %+v", name, s.Holders)
			}
			tokens[name] = s.Holders[0].Token
		}
		if !maps.Equal(l.Tokens(), tokens) {
			t.Errorf("tokens %v; the store says %v", l.Tokens(), tokens)
		}
		if first := look(t, e, "c").Holders[0]; l.Token() != first.Token || l.HolderID() != first.ID {
			t.Errorf("token %d, ID %s; want those of the first name as given: %+v", l.Token(), l.HolderID(), first)
		}
		time.Sleep(time.Hour)
		if err := l.Err(); err != nil {
			t.Errorf("after an hour: %v", err)
		}
		if left := time.Until(l.Deadline()); left <= 0 || left > holdfast.DefaultTTL {
			t.Errorf("the deadline is in %v", left)
		}
		mustRelease(t, l)
		wantErr(t, context.Cause(l.Context()), holdfast.ErrReleased)
		wantErr(t, l.Release(context.Background()), holdfast.ErrNotHeld, holdfast.ErrReleased)
		wantHeldBy(t, e, map[string]string{"a": "", "b": "", "c": ""})
	})
}

func TestMultiTryLockTakesNothingIfOneIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		other := mustLock(t, newClient(t, e).Mutex("b").Lock, context.Background())
		_, err := c.Multi([]string{"c", "b", "a"}).TryLock(context.Background())
		wantErr(t, err, holdfast.ErrNotAcquired)
		if held, ok := errors.AsType[*holdfast.HeldError](err); !ok || held.Resource != "b" || held.HolderID != other.HolderID() {
			t.Errorf("error %v does not name the holder of b", err)
		}
		wantHeldBy(t, e, map[string]string{"a": "", "b": other.HolderID(), "c": ""})
		mustRelease(t, other)
		l := mustLock(t, c.Multi([]string{"c", "b", "a"}).TryLock, context.Background())
		mustRelease(t, l)
	})
}

func TestMultiReleasesAllWhenItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		other := mustLock(t, newClient(t, e).Mutex("b").Lock, context.Background())
		enough := errors.New("enough")
		ctx, cancel := context.WithCancelCause(context.Background())
		got := lockSoon(ctx, c.Multi([]string{"a", "b", "c"}).Lock)
		synctest.Wait()
		if s := look(t, e, "b"); len(look(t, e, "a").Holders) != 1 || len(s.Waiters) != 1 {
			t.Errorf("while it waits: %+v", s)
		}
		cancel(enough)
		r := <-got
		wantErr(t, r.err, holdfast.ErrNotAcquired, enough)
		for _, name := range []string{"a", "c"} {
			wantEmpty(t, e, name)
		}
		mustRelease(t, other)
		wantEmpty(t, e, "b")
	})
}

// The loss of one resource ends the lease. If it was broken, the others are free
// when the holder has released them.
func TestMultiIsLostAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		l := mustLock(t, c.Multi([]string{"a", "b", "c"}).Lock, context.Background())
		time.Sleep(time.Minute) // wake-ups come in by now
		next := lockSoon(context.Background(), newClient(t, e).Multi([]string{"c", "b", "a"}).Lock)
		synctest.Wait()
		before := time.Now()
		if err := c.Break(context.Background(), "b", look(t, e, "b").Holders[0].ID, holdfast.Force()); err != nil {
			t.Fatal(err)
		}
		<-l.Context().Done()
		<-l.Done()
		wantLost(t, l.Err(), holdfast.LostBroken)
		wantLost(t, context.Cause(l.Context()), holdfast.LostBroken)
		if lost, _ := errors.AsType[*holdfast.LostError](l.Err()); lost.Resource != "b" || lost.Token != l.Tokens()["b"] {
			t.Errorf("lost: %v", lost)
		}
		if took := time.Since(before); took > 0 {
			t.Errorf("notified after %v", took)
		}
		time.Sleep(time.Second)
		wantErr(t, c.Mutex("a").Do(short(t), nothing), context.DeadlineExceeded)
		before = time.Now()
		wantErr(t, l.Release(context.Background()), holdfast.ErrLost)
		r := <-next
		if r.err != nil || r.at.After(before) {
			t.Errorf("the next one got it after %v: %v", r.at.Sub(before), r.err)
		}
		mustRelease(t, r.lease)
		for _, name := range []string{"a", "b", "c"} {
			wantEmpty(t, e, name)
		}
	})
}

func TestMultiIsLostWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		m := newClient(t, e).Multi([]string{"a", "b"}, holdfast.WithTTL(time.Second))
		l := mustLock(t, m.Lock, context.Background())
		start := time.Now()
		e.All(hang)
		<-l.Done()
		wantLost(t, l.Err(), holdfast.LostUnreachable)
		if took := time.Since(start); took >= time.Second {
			t.Errorf("notified after %v", took)
		}
		e.All(nil)
		mustRelease(t, mustLock(t, m.Lock, context.Background()))
	})
}

// A part that is held may be lost while Lock waits for the others.
func TestMultiStartsAgainIfAPartIsLostOnTheWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		other := mustLock(t, newClient(t, e).Mutex("b").Lock, context.Background())
		got := lockSoon(context.Background(), c.Multi([]string{"a", "b"}).Lock)
		synctest.Wait()
		first := look(t, e, "a").Holders[0]
		if err := c.Break(context.Background(), "a", first.ID); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		if s := look(t, e, "a"); len(s.Holders) != 1 || s.Holders[0].Token <= first.Token {
			t.Errorf("not taken again: %+v", s.Holders)
		}
		mustRelease(t, other)
		r := <-got
		if r.err != nil || r.lease.Err() != nil || r.lease.Tokens()["a"] <= first.Token {
			t.Fatal(r.lease, r.err)
		}
		mustRelease(t, r.lease)
	})
}

// A wait that an operator broke ends, and takes nothing with it.
func TestMultiBrokenInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		other := mustLock(t, newClient(t, e).Mutex("b").Lock, context.Background())
		got := lockSoon(context.Background(), c.Multi([]string{"a", "b"}).Lock)
		synctest.Wait()
		if err := c.Break(context.Background(), "b", look(t, e, "b").Waiters[0].ID); err != nil {
			t.Fatal(err)
		}
		wantErr(t, (<-got).err, holdfast.ErrNotAcquired)
		wantEmpty(t, e, "a")
		mustRelease(t, other)
	})
}

func TestMultiUnderAnOwnLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		own := mustLock(t, c.Mutex("b").Lock, context.Background())
		mustNotLock(t, c.Multi([]string{"a", "b"}).Lock, own.Context(), holdfast.ErrDeadlock)
		if e.Count("acquire") != 1 {
			t.Error("it requested what it cannot use")
		}
		l := mustLock(t, c.Multi([]string{"a", "b"}, holdfast.WithReentrancy()).Lock, own.Context())
		if l.Tokens()["b"] != own.Token() || l.Tokens()["a"] == 0 {
			t.Errorf("tokens %v; own %d", l.Tokens(), own.Token())
		}
		mustRelease(t, own)
		if l.Err() != nil || len(look(t, e, "b").Holders) != 1 {
			t.Error("given back while the Multi holds it")
		}
		mustRelease(t, l)
		wantEmpty(t, e, "a")
		wantEmpty(t, e, "b")
	})
}

func TestLockUnderAMulti(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		outer := mustLock(t, c.Multi([]string{"a", "b"}).Lock, context.Background())
		for _, name := range []string{"a", "b"} {
			mustNotLock(t, c.Mutex(name).Lock, outer.Context(), holdfast.ErrDeadlock)
		}
		mustNotLock(t, c.Multi([]string{"b", "c"}).TryLock, outer.Context(), holdfast.ErrDeadlock)
		inner := mustLock(t, c.Mutex("b", holdfast.WithReentrancy()).Lock, outer.Context())
		if inner.Token() != outer.Tokens()["b"] {
			t.Errorf("token %d; want %d", inner.Token(), outer.Tokens()["b"])
		}
		both := mustLock(t, c.Multi([]string{"b", "a"}, holdfast.WithReentrancy()).Lock, inner.Context())
		if !maps.Equal(both.Tokens(), outer.Tokens()) {
			t.Errorf("tokens %v; want %v", both.Tokens(), outer.Tokens())
		}
		mustRelease(t, outer)
		mustRelease(t, inner)
		if both.Err() != nil || len(look(t, e, "a").Holders)+len(look(t, e, "b").Holders) != 2 {
			t.Error("given back while the inner Multi holds them")
		}
		mustRelease(t, both)
		wantEmpty(t, e, "a")
		wantEmpty(t, e, "b")
	})
}

func TestMultiOptions(t *testing.T) {
	var many []string
	for i := range holdfast.MaxMulti + 1 {
		many = append(many, fmt.Sprint("n", i))
	}
	c := newClient(t, newFaulty())
	for name, m := range map[string]*holdfast.Multi{
		"no names":   c.Multi(nil),
		"too many":   c.Multi(many),
		"empty name": c.Multi([]string{"a", ""}),
		"long name":  c.Multi([]string{strings.Repeat("x", 513), "a"}),
		"not UTF-8":  c.Multi([]string{"a", "\xff"}),
		"TTL":        c.Multi([]string{"a"}, holdfast.WithTTL(time.Millisecond)),
		"nil option": c.Multi([]string{"a"}, nil),
	} {
		t.Run(name, func(t *testing.T) {
			mustNotLock(t, m.Lock, context.Background(), holdfast.ErrInvalid)
			mustNotLock(t, m.TryLock, context.Background(), holdfast.ErrInvalid)
			wantErr(t, m.Do(context.Background(), nil), holdfast.ErrInvalid)
		})
	}
	most := append(many[:holdfast.MaxMulti:holdfast.MaxMulti], many[:10]...) // some of them twice
	l := mustLock(t, c.Multi(most).Lock, context.Background())
	if len(l.Tokens()) != holdfast.MaxMulti {
		t.Errorf("%d tokens", len(l.Tokens()))
	}
	mustRelease(t, l)
}

func TestMultiCannotBeDetached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := mustLock(t, newClient(t, newFaulty()).Multi([]string{"a", "b"}).Lock, context.Background())
		_, err := l.Detach(context.Background())
		wantErr(t, err, errors.ErrUnsupported)
		wantErr(t, l.Demote(context.Background()), holdfast.ErrNotHeld)
		if l.Err() != nil {
			t.Errorf("it is gone: %v", l.Err())
		}
		mustRelease(t, l)
		_, err = l.Detach(context.Background())
		wantErr(t, err, holdfast.ErrNotHeld)
	})
}

// The TTL counts from the last grant: the first parts are kept alive while the
// rest is waited for.
func TestMultiWithoutRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		other := mustLock(t, newClient(t, e).Mutex("b").Lock, context.Background())
		got := lockSoon(context.Background(), newClient(t, e).Multi([]string{"a", "b"}, holdfast.WithTTL(time.Second), holdfast.WithoutRenewal()).Lock)
		time.Sleep(10 * time.Second)
		mustRelease(t, other)
		l := (<-got).lease
		start := time.Now()
		<-l.Done()
		if took := time.Since(start); took > time.Second || took < 600*time.Millisecond {
			t.Errorf("it ended after %v", took)
		}
		wantLost(t, l.Err(), holdfast.LostExpired)
		synctest.Wait()
		wantEmpty(t, e, "a")
		wantEmpty(t, e, "b")
	})
}

func TestMultiDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		m := newClient(t, e).Multi([]string{"a", "b"})
		mine := errors.New("mine")
		err := m.Do(context.Background(), func(ctx context.Context) error {
			if l := holdfast.LeaseFromContext(ctx); len(l.Tokens()) != 2 || ctx.Err() != nil {
				t.Errorf("lease %v, %v", l.Tokens(), ctx.Err())
			}
			return mine
		})
		wantErr(t, err, mine)
		wantEmpty(t, e, "a")
		wantEmpty(t, e, "b")
	})
}

// Close ends a Multi that is held and one that waits.
func TestMultiAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		held := mustLock(t, c.Multi([]string{"a", "b"}).Lock, context.Background())
		mustLock(t, newClient(t, e).Mutex("y").Lock, context.Background())
		got := lockSoon(context.Background(), c.Multi([]string{"x", "y", "z"}).Lock)
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		wantErr(t, (<-got).err, holdfast.ErrClosed)
		wantErr(t, held.Err(), holdfast.ErrReleased)
		for _, name := range []string{"a", "b", "x", "z"} {
			wantEmpty(t, e, name)
		}
	})
}

// With tenure the parts are handed off inside the process.
func TestMultiIsHandedOffInTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		l := mustLock(t, c.Multi([]string{"a", "b"}).Lock, context.Background())
		var waits []<-chan result
		for range 10 {
			waits = append(waits, lockSoon(context.Background(), c.Multi([]string{"b", "a"}).Lock))
			synctest.Wait()
		}
		last := l.Tokens()
		mustRelease(t, l)
		for i, w := range waits {
			r := wantGrant(t, w)
			if now := r.lease.Tokens(); now["a"] <= last["a"] || now["b"] <= last["b"] {
				t.Errorf("caller %d: tokens %v after %v", i, now, last)
			}
			last = r.lease.Tokens()
			mustRelease(t, r.lease)
		}
		wantEmpty(t, e, "a")
		wantEmpty(t, e, "b")
	})
}

// A Multi is held for as long as each of its resources is, so its deadline is the earliest.
func TestDeadlineOfAMultiIsTheEarliest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		other := mustLock(t, newClient(t, e).Mutex("b").Lock, context.Background())
		start := time.Now()
		got := lockSoon(context.Background(), newClient(t, e).Multi([]string{"b", "a"}).Lock)
		time.Sleep(3 * time.Second)
		mustRelease(t, other)
		l := wantGrant(t, got).lease
		time.Sleep(time.Second) // the claim of "b" is renewed, "a" is not yet
		if left := l.Deadline().Sub(start); left != holdfast.DefaultTTL-keepalive.Margin(holdfast.DefaultTTL) {
			t.Errorf("the deadline is %v after the grant of \"a\"", left)
		}
		mustRelease(t, l)
	})
}

// If a part is lost and ctx ends at that moment, the error has the cause of ctx.
func TestMultiReturnsTheCauseOfItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		mustLock(t, newClient(t, e).Mutex("b").Lock, context.Background())
		ctx, cancel := context.WithCancelCause(context.Background())
		cause := errors.New("the order was cancelled")
		c := newClient(t, e)
		got := lockSoon(ctx, c.Multi([]string{"a", "b"}).Lock)
		time.Sleep(2 * time.Second)
		e.Set(func() { // the Multi releases what it has
			e.OnRelease = func(ctx context.Context, r engine.Release) error {
				cancel(cause)
				return e.Engine.Release(ctx, r)
			}
		})
		if err := c.Break(context.Background(), "a", look(t, e, "a").Holders[0].ID); err != nil {
			t.Fatal(err)
		}
		wantErr(t, (<-got).err, holdfast.ErrNotAcquired, cause)
	})
}
