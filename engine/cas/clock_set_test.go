package cas_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
)

var errCut = errors.New("the connection was cut")

// The store's clock is set while the answer to a renewal is lost.
func TestClockSetWhileAReplyIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHookedClock()
		e := cas.New(s, 0)
		r := request("a.1", 10*time.Second, false)
		held := acquire(t, e, r, engine.Granted)
		time.Sleep(3 * time.Second)
		s.swap = func(ctx context.Context, c []cas.Change) ([]cas.Outcome, error) {
			s.swap = nil
			s.ahead = 8 * time.Second
			if _, err := s.Swap(ctx, c); err != nil {
				t.Error(err)
			}
			return nil, errCut
		}
		if err := renew(t, e, r, held.Token); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Second)
		if a := newcomer(t, s, request("b.1", time.Second, false)); a.Status == engine.Granted {
			t.Error("another has the lease 9 s after it was renewed for 10 s")
		}
	})
}

// The same with a store that is too slow for another try.
func TestClockSetDuringASlowRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHookedClock()
		e := cas.New(s, time.Second)
		r := request("a.1", 10*time.Second, false)
		held := acquire(t, e, r, engine.Granted)
		time.Sleep(3 * time.Second)
		s.now = func(context.Context) { time.Sleep(600 * time.Millisecond) }
		s.swap = func(ctx context.Context, c []cas.Change) ([]cas.Outcome, error) {
			s.swap = nil
			time.Sleep(600 * time.Millisecond)
			s.ahead = 8 * time.Second
			return s.Swap(ctx, c)
		}
		began := time.Now()
		err := renew(t, e, r, held.Token)
		s.now = nil
		time.Sleep(time.Until(began.Add(9 * time.Second)))
		if a := newcomer(t, s, request("b.1", time.Second, false)); err == nil && a.Status == engine.Granted {
			t.Error("another has the lease 9 s after it was renewed for 10 s")
		}
	})
}
