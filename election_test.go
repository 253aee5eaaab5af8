package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// campaignSoon campaigns in the background.
func campaignSoon(ctx context.Context, e *holdfast.Election, value string) <-chan result {
	got := make(chan result, 1)
	go func() {
		l, err := e.Campaign(ctx, value)
		got <- result{l, err, time.Now()}
	}()
	return got
}

func mustCampaign(t testing.TB, e *holdfast.Election, value string) *holdfast.Lease {
	t.Helper()
	l, err := e.Campaign(context.Background(), value)
	if err != nil {
		t.Fatalf("Campaign: %v", err)
	}
	return l
}

// wantLeader checks the value of the leader; "" means that there is none.
func wantLeader(t testing.TB, e *holdfast.Election, value string) holdfast.Leader {
	t.Helper()
	l, err := e.Leader(context.Background())
	if value == "" {
		wantErr(t, err, holdfast.ErrNoLeader)
	} else if err != nil || l.Value != value {
		t.Errorf("leader %+v, %v; want %q", l, err, value)
	}
	return l
}

// Candidates lead one after the other, in the order in which they came, also
// those of one client; each term has a token above those before.
func TestCampaignInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		a, b := newClient(t, e).Election("x"), newClient(t, e).Election("x")
		wantLeader(t, a, "")
		since := time.Now()
		l := mustCampaign(t, a, "first")
		got := wantLeader(t, b, "first")
		if got.HolderID != l.HolderID() || got.Token != l.Token() || !got.Since.Equal(since) {
			t.Errorf("leader %+v; want %s, token %d", got, l.HolderID(), l.Token())
		}
		var next []<-chan result
		for n, el := range []*holdfast.Election{b, a, a, b} {
			next = append(next, campaignSoon(context.Background(), el, fmt.Sprint(n)))
			synctest.Wait()
		}
		time.Sleep(time.Minute) // renewed and waited for
		for n, ch := range next {
			before := time.Now()
			token := l.Token()
			mustRelease(t, l)
			r := wantGrant(t, ch)
			if took := r.at.Sub(before); took > 0 {
				t.Errorf("the next leader was chosen after %v", took)
			}
			if l = r.lease; l.Token() <= token {
				t.Errorf("token %d after %d", l.Token(), token)
			}
			wantLeader(t, a, fmt.Sprint(n))
		}
		mustRelease(t, l)
		wantLeader(t, a, "")
	})
}

func TestElectionRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, memory.New())
		ctx := context.Background()
		el := c.Election("x")
		for _, value := range []string{strings.Repeat("v", holdfast.MaxValueLen+1), "\xff"} {
			_, err := el.Campaign(ctx, value)
			wantErr(t, err, holdfast.ErrInvalid)
			wantErr(t, el.Lead(ctx, value, nil), holdfast.ErrInvalid)
		}
		bad := c.Election("x", holdfast.WithTTL(time.Nanosecond))
		_, err := bad.Campaign(ctx, "v")
		wantErr(t, err, holdfast.ErrInvalid)
		_, err = bad.Leader(ctx)
		wantErr(t, err, holdfast.ErrInvalid)
		for _, err := range bad.Observe(ctx) {
			wantErr(t, err, holdfast.ErrInvalid)
		}

		// An election is no mutex, nor the other way round.
		l := mustCampaign(t, el, strings.Repeat("v", holdfast.MaxValueLen))
		mustNotLock(t, c.Mutex("x").Lock, ctx, holdfast.ErrMismatch)
		_, err = c.Semaphore("x", 1).TryAcquire(ctx, 1)
		wantErr(t, err, holdfast.ErrMismatch)
		_, err = el.Campaign(l.Context(), "again")
		wantErr(t, err, holdfast.ErrDeadlock)
		mustRelease(t, l)
		m := mustLock(t, c.Mutex("x").Lock, ctx)
		_, err = el.Campaign(ctx, "v")
		wantErr(t, err, holdfast.ErrMismatch)
		wantErr(t, el.Lead(ctx, "v", nil), holdfast.ErrMismatch)
		_, err = el.Leader(ctx)
		wantErr(t, err, holdfast.ErrMismatch)
		n := 0
		for _, err := range el.Observe(ctx) {
			n++
			wantErr(t, err, holdfast.ErrMismatch)
		}
		if n != 1 {
			t.Errorf("Observe yielded %d elements, want the error alone", n)
		}
		mustRelease(t, m)
	})
}

// The Context of a leader that is cut off, or whose store hangs, ends before the next
// one leads. Lead then campaigns again and leads another term.
func TestLeaderStepsDownInTime(t *testing.T) {
	for name, fault := range map[string]func(context.Context) error{"cut off": down, "hung": hang} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				// A driver gives up a request that hangs, sooner or later.
				fault := func(ctx context.Context) error {
					ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
					defer cancel()
					return fault(ctx)
				}
				store := memory.New()
				net := newFaulty()
				net.Engine = store
				a, b := newClient(t, net).Election("x"), newClient(t, store).Election("x")
				ctx, cancel := context.WithCancel(context.Background())
				type span struct {
					token    uint64
					from, to time.Time
				}
				terms := make(chan span, 2)
				ended := make(chan error, 1)
				go func() {
					ended <- a.Lead(ctx, "a", func(ctx context.Context) error {
						s := span{token: holdfast.LeaseFromContext(ctx).Token(), from: time.Now()}
						<-ctx.Done()
						s.to = time.Now()
						terms <- s
						return ctx.Err()
					})
				}()
				synctest.Wait()
				next := campaignSoon(context.Background(), b, "b")
				time.Sleep(20 * time.Second)
				net.All(fault)
				first := <-terms
				r := wantGrant(t, next)
				if !first.to.Before(r.at) {
					t.Errorf("stepped down %v after the next leader began", first.to.Sub(r.at))
				}
				if late := r.at.Sub(first.to); late > time.Second {
					t.Errorf("nobody led for %v", late)
				}
				wantLeader(t, b, "b")
				net.All(nil)
				time.Sleep(5 * time.Second) // back in the queue
				mustRelease(t, r.lease)
				time.Sleep(time.Second)
				wantLeader(t, b, "a")
				cancel()
				second := <-terms
				if second.token <= r.lease.Token() || r.lease.Token() <= first.token {
					t.Errorf("tokens %d, %d, %d", first.token, r.lease.Token(), second.token)
				}
				wantErr(t, <-ended, context.Canceled)
				wantLeader(t, b, "")
			})
		})
	}
}

// What fn returns decides what Lead does.
func TestLeadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		el := c.Election("x")
		broken, gone := errors.New("the disk is full"), errors.New("shutting down")

		// An error ends it, also after terms that ended well, a second apart.
		n, start := 0, time.Now()
		err := el.Lead(context.Background(), "v", func(context.Context) error {
			if n++; n == 4 {
				return broken
			}
			return nil
		})
		if err != broken || n != 4 {
			t.Errorf("%v after %d terms", err, n)
		}
		if took := time.Since(start); took < 3*time.Second || took > 4*time.Second {
			t.Errorf("four terms in %v", took)
		}
		wantLeader(t, el, "")

		// ctx ends it in mid-term: with its cause, and what fn adds.
		for _, own := range []error{nil, context.Canceled, gone, broken} {
			ctx, cancel := context.WithCancelCause(context.Background())
			err := el.Lead(ctx, "v", func(ctx context.Context) error {
				cancel(gone)
				<-ctx.Done()
				return own
			})
			wantErr(t, err, gone)
			if errors.Is(err, broken) != (own == broken) || errors.Is(err, context.Canceled) {
				t.Errorf("fn returned %v, Lead %v", own, err)
			}
			wantLeader(t, el, "")
		}

		// ctx ends it in the pause, and while it waits.
		ctx, cancel := context.WithTimeoutCause(context.Background(), 500*time.Millisecond, gone)
		defer cancel()
		start = time.Now()
		err = el.Lead(ctx, "v", func(context.Context) error { return nil })
		wantErr(t, err, gone)
		l := mustCampaign(t, el, "other")
		ctx, cancel = context.WithTimeoutCause(context.Background(), 500*time.Millisecond, gone)
		defer cancel()
		err = el.Lead(ctx, "v", func(context.Context) error { t.Error("it leads"); return nil })
		wantErr(t, err, gone, holdfast.ErrNotAcquired)
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v", took)
		}
		mustRelease(t, l)

		// Trouble that waiting cannot mend ends it.
		e.All(denied)
		wantErr(t, el.Lead(context.Background(), "v", nil), holdfast.ErrDenied)
		e.All(nil)

		// So does the end of the client.
		err = el.Lead(context.Background(), "v", func(ctx context.Context) error {
			go func() { _ = c.Close() }()
			<-ctx.Done()
			return ctx.Err()
		})
		wantErr(t, err, holdfast.ErrClosed)
		_ = c.Close() // waits for the other one
		wantEmpty(t, e.Engine, "x")
	})
}

// An error after the loss belongs to the term that ended; it is logged, unless it
// only says that ctx has ended.
func TestLeadAgainAfterLoss(t *testing.T) {
	for _, silent := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var logged strings.Builder
			store := memory.New()
			c := newClient(t, store, holdfast.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
			el := c.Election("x")
			stop := errors.New("enough")
			n := 0
			err := el.Lead(context.Background(), "v", func(ctx context.Context) error {
				if n++; n == 2 {
					return stop
				}
				l := holdfast.LeaseFromContext(ctx)
				if err := c.Break(context.Background(), "x", l.HolderID()); err != nil {
					t.Error(err)
				}
				<-ctx.Done()
				wantLost(t, context.Cause(ctx), holdfast.LostBroken)
				if silent {
					return fmt.Errorf("push: %w", ctx.Err())
				}
				return errors.New("push: connection closed")
			})
			if err != stop || n != 2 {
				t.Errorf("%v after %d terms", err, n)
			}
			synctest.Wait() // the loss is logged beside
			if strings.Contains(logged.String(), "push") == silent {
				t.Errorf("log:\n%s", logged.String())
			}
		})
	}
}

// A candidate whose wait an operator breaks goes to the end of the queue.
func TestLeadAfterBrokenWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		c := newClient(t, store)
		el := c.Election("x")
		l := mustCampaign(t, el, "present")
		led := make(chan string, 2)
		ctx, cancel := context.WithCancel(context.Background())
		ends := make(chan error, 2)
		for _, value := range []string{"a", "b"} {
			go func() {
				ends <- el.Lead(ctx, value, func(ctx context.Context) error {
					led <- value
					<-ctx.Done()
					return ctx.Err()
				})
			}()
			synctest.Wait()
		}
		if err := c.Break(context.Background(), "x", look(t, store, "x").Waiters[0].ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		s := look(t, store, "x")
		if len(s.Waiters) != 2 || s.Waiters[0].Reason != "b" || s.Waiters[1].Reason != "a" {
			t.Errorf("waiters %+v", s.Waiters)
		}
		mustRelease(t, l)
		if v := <-led; v != "b" {
			t.Errorf("%s leads", v)
		}
		cancel()
		wantErr(t, <-ends, context.Canceled)
		wantErr(t, <-ends, context.Canceled)
		wantEmpty(t, store, "x")
	})
}

func TestLeadResignsOnPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memory.New()
		el := newClient(t, store).Election("x")
		defer func() {
			if p := recover(); p != "boom" {
				t.Errorf("recovered %v", p)
			}
			wantEmpty(t, store, "x")
		}()
		_ = el.Lead(context.Background(), "v", func(context.Context) error { panic("boom") })
	})
}

// peeks is a store whose peeks a test can spoil.
type peeks struct {
	*faulty
	fault func(context.Context) error
	calls int
}

func (p *peeks) Peek(ctx context.Context, r engine.Resource) (engine.Brief, error) {
	var fault func(context.Context) error
	p.Set(func() { p.calls++; fault = p.fault })
	if fault != nil {
		return engine.Brief{}, fault(ctx)
	}
	return p.faulty.Peek(ctx, r)
}

// Observe yields the present leader and each change, soon; it rides out a store
// that is away, and ends with ctx.
func TestObserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &peeks{faulty: newFaulty()}
		el := newClient(t, e).Election("x", holdfast.WithTTL(3*time.Second))
		type seen struct {
			holdfast.Leader
			at time.Time
		}
		saw := make(chan seen, 10)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		ended := make(chan bool)
		go func() {
			defer close(ended)
			for l, err := range newClient(t, e).Election("x").Observe(ctx) {
				if err != nil {
					t.Error(err)
				}
				saw <- seen{l, time.Now()}
			}
		}()
		expect := func(value string, since time.Time, within time.Duration) {
			t.Helper()
			s := <-saw
			if s.Value != value || (value == "") != (s.Token == 0) || s.at.Sub(since) > within {
				t.Errorf("saw %+v after %v; want %q within %v", s.Leader, s.at.Sub(since), value, within)
			}
		}
		expect("", time.Now(), 0)
		const poll = 1100 * time.Millisecond
		l := mustCampaign(t, el, "a")
		expect("a", time.Now(), poll)
		next := campaignSoon(context.Background(), el, "b")
		time.Sleep(time.Minute)
		mustRelease(t, l)
		l = (<-next).lease
		expect("b", time.Now(), poll)
		mustRelease(t, l)
		expect("", time.Now(), poll)
		l = mustCampaign(t, el, "b") // a new term of the same candidate is a change
		expect("b", time.Now(), poll)

		for _, fault := range []func(context.Context) error{down, hang} {
			e.Set(func() { e.fault = fault })
			time.Sleep(time.Minute)
			mustRelease(t, l)
			l = mustCampaign(t, el, "c")
			if len(saw) > 0 {
				t.Errorf("saw %+v", <-saw)
			}
			e.Set(func() { e.fault = nil })
			expect("c", time.Now(), 4*time.Second)
		}

		// A leader that dies is missed as soon as its TTL is over.
		e.All(down)
		at := time.Now().Add(look(t, e.Engine, "x").Holders[0].TTL)
		expect("", at, 15*time.Millisecond)
		e.All(nil)
		cancel()
		<-ended
		if n := e.calls; n == 0 || n > 300 {
			t.Errorf("%d looks in three minutes", n)
		}
	})
}

// Observe ends when its caller breaks off, with an error that waiting cannot
// mend, and with the client. In a bubble a goroutine that is left fails the test.
func TestObserveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &peeks{faulty: newFaulty()}
		c := newClient(t, e)
		el := c.Election("x")
		mustCampaign(t, el, "v")
		for l, err := range el.Observe(context.Background()) {
			if err != nil || l.Value != "v" {
				t.Errorf("%+v, %v", l, err)
			}
			break
		}
		done, cancel := context.WithCancel(context.Background())
		cancel()
		for l, err := range el.Observe(done) {
			t.Errorf("yielded %+v, %v", l, err)
		}
		var errs []error
		for _, err := range el.Observe(context.Background()) {
			errs = append(errs, err)
			switch len(errs) {
			case 1:
				e.Set(func() { e.fault = denied })
			case 2:
				wantErr(t, err, holdfast.ErrDenied)
				e.Set(func() { e.fault = nil })
			}
		}
		for _, err := range el.Observe(context.Background()) {
			errs = append(errs, err)
			if err == nil {
				if err := c.Close(); err != nil { // nothing of Observe is in its way
					t.Error(err)
				}
			}
		}
		if len(errs) != 4 || !slices.Equal([]bool{errs[0] == nil, errs[2] == nil}, []bool{true, true}) {
			t.Fatalf("%v", errs)
		}
		wantErr(t, errs[3], holdfast.ErrClosed)
	})
}
