package holdfast

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/internal/keepalive"
)

// listening is a store whose Listen a test answers.
type listening struct {
	engine.Engine

	mu     sync.Mutex
	answer func(ctx context.Context) error // nil: the memory's own
	tries  int
	closed int
}

func (e *listening) Listen(ctx context.Context, prefix, client string, deliver func(engine.Wakeup)) (engine.Listener, error) {
	e.mu.Lock()
	e.tries++
	answer := e.answer
	e.mu.Unlock()
	if answer != nil {
		if err := answer(ctx); err != nil {
			return nil, err
		}
	}
	l, err := e.Engine.Listen(ctx, prefix, client, deliver)
	return &closing{l, e}, err
}

// closing counts the listeners that are closed.
type closing struct {
	engine.Listener
	e *listening
}

func (l *closing) Close() error {
	l.e.mu.Lock()
	l.e.closed++
	l.e.mu.Unlock()
	return l.Listener.Close()
}

func (e *listening) counts() (tries, closed int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tries, e.closed
}

func (e *listening) answerWith(answer func(ctx context.Context) error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = answer
}

func listeningClient(t *testing.T, answer func(ctx context.Context) error) (*listening, *Client) {
	t.Helper()
	e := &listening{Engine: memory.New(), answer: answer}
	c, err := New(e)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return e, c
}

func hung(ctx context.Context) error {
	<-ctx.Done()
	return errors.Join(ErrUnavailable, ctx.Err())
}

func failing(err error) func(context.Context) error {
	return func(context.Context) error { return err }
}

// read returns the kind of the wake-up in an inbox, or -1.
func (b inbox) read() engine.WakeupKind {
	select {
	case w := <-b:
		return w.Kind
	default:
		return none
	}
}

const none engine.WakeupKind = 255

func TestAnInboxKeepsWhatCounts(t *testing.T) {
	resync, grant, broken := engine.Resync, engine.WakeGrant, engine.WakeBroken
	for _, tt := range []struct {
		sent []engine.WakeupKind
		want engine.WakeupKind
	}{
		{nil, none},
		{[]engine.WakeupKind{resync}, resync},
		{[]engine.WakeupKind{grant, resync}, grant},
		{[]engine.WakeupKind{broken, resync}, broken},
		{[]engine.WakeupKind{resync, grant}, grant},
		{[]engine.WakeupKind{grant, broken}, broken},
	} {
		b := make(inbox, 1)
		for _, k := range tt.sent {
			b.wake(engine.Wakeup{Kind: k})
		}
		if got := b.read(); got != tt.want {
			t.Errorf("after %v the inbox has %v, want %v", tt.sent, got, tt.want)
		}
		if got := b.read(); got != none {
			t.Errorf("after %v the inbox has %v as well", tt.sent, got)
		}
	}
}

func TestAWakeupGoesToItsID(t *testing.T) {
	c := opened(t)
	a, b := make(inbox, 1), make(inbox, 1)
	want := func(ofA, ofB engine.WakeupKind) {
		t.Helper()
		if gotA, gotB := a.read(), b.read(); gotA != ofA || gotB != ofB {
			t.Errorf("a has %v and b %v, want %v and %v", gotA, gotB, ofA, ofB)
		}
	}
	c.wakeups.register("a", a)
	c.wakeups.register("b", b)
	c.wakeups.deliver(engine.Wakeup{ID: "a", Kind: engine.WakeGrant})
	want(engine.WakeGrant, none)
	c.wakeups.deliver(engine.Wakeup{ID: "b", Kind: engine.Resync})
	want(none, engine.Resync)
	c.wakeups.deliver(engine.Wakeup{Kind: engine.Resync}) // after a gap: for all
	want(engine.Resync, engine.Resync)
	c.wakeups.deliver(engine.Wakeup{ID: "c", Kind: engine.WakeGrant})
	want(none, none)
	c.wakeups.remove("a")
	c.wakeups.deliver(engine.Wakeup{ID: "a", Kind: engine.WakeGrant})
	c.wakeups.deliver(engine.Wakeup{Kind: engine.Resync})
	want(none, engine.Resync)
}

// From the moment when an attempt is a grant, wake-ups go to the grant, and the one that
// the attempt has not read is not lost.
func TestAWakeupFollowsAnAttemptThatIsGranted(t *testing.T) {
	c := opened(t)
	h := granted(t, c.Mutex("x"))
	c.wakeups.remove(h.id())
	b := make(inbox, 1)
	c.wakeups.register(h.id(), b)
	c.wakeups.deliver(engine.Wakeup{ID: h.id(), Kind: engine.WakeBroken})
	if unread, _ := c.wakeups.registerGrant(h); unread.Kind != engine.WakeBroken {
		t.Errorf("unread: %v", unread)
	}
	if all := c.wakeups.grants(); len(all) != 1 || all[0] != h {
		t.Errorf("grants: %v", all)
	}
	c.wakeups.deliver(engine.Wakeup{ID: h.id(), Kind: engine.WakeBroken})
	if got := b.read(); got != none {
		t.Errorf("the inbox of the attempt got %v", got)
	}
	if !h.ended() {
		t.Error("the grant did not get the break")
	}
	if all := c.wakeups.grants(); len(all) != 0 {
		t.Errorf("an ended grant is registered: %v", all)
	}
}

func TestWaitersShareOneSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := listeningClient(t, func(context.Context) error {
			time.Sleep(listenWait / 2)
			return nil
		})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if opened, err := c.wakeups.listen(context.Background()); !opened || err != nil {
					t.Errorf("listen: %v, %v; want a new subscription", opened, err)
				}
			})
		}
		wg.Wait()
		if opened, err := c.wakeups.listen(context.Background()); opened || err != nil {
			t.Errorf("listen while subscribed: %v, %v", opened, err)
		}
		if tries, _ := e.counts(); tries != 1 || !c.wakeups.live() {
			t.Errorf("%d tries, live %v", tries, c.wakeups.live())
		}
	})
}

// A subscription that hangs delays a poll by listenWait, and by less if ctx ends before.
func TestListenIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := listeningClient(t, hung)
		for _, timeout := range []time.Duration{listenWait / 2, listenWait * 2} {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			start := time.Now()
			if opened, err := c.wakeups.listen(ctx); opened || err != nil {
				t.Errorf("listen: %v, %v", opened, err)
			}
			if d := time.Since(start); d != min(timeout, listenWait) {
				t.Errorf("listen took %v with a ctx of %v", d, timeout)
			}
			cancel()
		}
	})
}

func TestAFailedSubscriptionIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := listeningClient(t, failing(ErrUnavailable))
		if opened, err := c.wakeups.listen(context.Background()); opened || err != nil {
			t.Errorf("listen: %v, %v; want no error, since the next poll tries again", opened, err)
		}
		e.answerWith(nil)
		c.wakeups.listenSoon()
		synctest.Wait()
		if tries, _ := e.counts(); tries != 2 || !c.wakeups.live() {
			t.Errorf("%d tries, live %v", tries, c.wakeups.live())
		}
	})
}

// A store that refuses the subscription is an error for waiters; leases do without.
func TestADeniedSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := listeningClient(t, failing(ErrDenied))
		if _, err := c.wakeups.listen(context.Background()); !errors.Is(err, ErrDenied) {
			t.Errorf("listen: %v", err)
		}
		c.wakeups.listenSoon()
		if _, err := c.Mutex("x").Lock(context.Background()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if tries, _ := e.counts(); tries != 1 {
			t.Errorf("%d tries without a waiter", tries)
		}
		e.answerWith(nil)
		if opened, err := c.wakeups.listen(context.Background()); !opened || err != nil {
			t.Errorf("the next waiter: %v, %v", opened, err)
		}
	})
}

// A lease that is held for listenAge is worth a subscription; shorter ones are not.
func TestALeaseOfListenAgeSubscribes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, c := listeningClient(t, nil)
		hold := func(span time.Duration) {
			l, err := c.Mutex("x", WithTTL(time.Hour)).Lock(context.Background()) // no renewal meanwhile
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(span)
			_ = l.Release(context.Background())
		}
		for range 10 {
			hold(listenAge - 10*time.Millisecond)
		}
		if tries, _ := e.counts(); tries != 0 {
			t.Errorf("%d subscriptions for short leases", tries)
		}
		hold(2 * listenAge)
		if tries, _ := e.counts(); tries != 1 || !c.wakeups.live() {
			t.Errorf("%d subscriptions for a long lease, live %v", tries, c.wakeups.live())
		}
	})
}

// Close does not wait for a subscription that is under way; what comes of it is closed.
func TestASubscriptionThatComesAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		e, c := listeningClient(t, func(context.Context) error {
			<-release
			return nil
		})
		c.wakeups.listenSoon()
		synctest.Wait()
		c.wakeups.close()
		close(release)
		synctest.Wait()
		if tries, closed := e.counts(); tries != 1 || closed != 1 || c.wakeups.live() {
			t.Errorf("%d subscriptions, %d closed, live %v", tries, closed, c.wakeups.live())
		}
		c.wakeups.listenSoon()
		if opened, err := c.wakeups.listen(context.Background()); opened || err != nil {
			t.Errorf("listen after close: %v, %v", opened, err)
		}
		if tries, _ := e.counts(); tries != 1 {
			t.Errorf("%d tries after close", tries-1)
		}
	})
}

// What has ended, leases and waits alike, is not kept.
func TestTheRegisterForgetsWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := opened(t), context.Background()
		m := c.Mutex("x", WithoutTenure())
		for range 10 {
			l, err := m.Lock(ctx)
			if err != nil {
				t.Fatal(err)
			}
			short, cancel := context.WithTimeout(ctx, 10*time.Second)
			if _, err := m.Lock(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
			granted := make(chan *Lease)
			go func() { l, _ := m.Lock(ctx); granted <- l }()
			synctest.Wait()
			if err := l.Release(ctx); err != nil {
				t.Error(err)
			}
			_ = (<-granted).Release(ctx)
		}
		synctest.Wait()
		if held, waiting := len(c.wakeups.held), len(c.wakeups.waiting); held+waiting > 0 {
			t.Errorf("%d leases and %d waits are kept", held, waiting)
		}
	})
}

// Of two grants of one ID, as of calls at the same time that adopt a ticket, the first one begins.
func TestAnIDHasOneGrant(t *testing.T) {
	c := opened(t)
	first := granted(t, c.Mutex("x"))
	second := &storeGrant{acquirer: first.acquirer, held: first.held}
	if second.begin(keepalive.Never) {
		t.Error("the second one begins")
	}
	if all := c.wakeups.grants(); len(all) != 1 || all[0] != first {
		t.Errorf("grants: %v", all)
	}
}
