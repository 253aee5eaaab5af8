package cas_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
)

// The message of a grant may arrive before the answer to a poll that the store answered first. The
// waiter counts from that poll, so what is left of the lease must not count from the poll before.
func TestGrantThatOvertakesAPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHookedClock()
		holders, waiters := s.link(), s.link()
		holder, waiter := cas.New(holders, 0), cas.New(waiters, 0)
		a, b := request("a.1", 10*time.Second, true), request("b.1", 10*time.Second, true)
		held := acquire(t, holder, a, engine.Granted)
		acquire(t, waiter, b, engine.Queued)
		wakes := make(chan engine.Wakeup, 16)
		l, err := waiter.Listen(t.Context(), "p", "b", func(w engine.Wakeup) { wakes <- w })
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if err := renew(t, holder, a, held.Token); err != nil { // now the holder has the latest document
			t.Fatal(err)
		}
		holders.swap = func(ctx context.Context, c []cas.Change) ([]cas.Outcome, error) {
			time.Sleep(1900 * time.Millisecond) // on its way
			return s.Swap(ctx, c)
		}
		drafted := time.Now()
		go release(t, holder, a, held.Token)
		time.Sleep(1800 * time.Millisecond)
		waiters.read = func(ctx context.Context, r []cas.Read) ([]cas.Doc, error) {
			docs, err := s.Read(ctx, r)
			time.Sleep(300 * time.Millisecond) // on their way
			return docs, err
		}
		sent := time.Now()
		acquire(t, waiter, b, engine.Queued)
		w := <-wakes
		if sent.Add(w.TTL).After(drafted.Add(engine.ClaimWindow + 50*time.Millisecond)) {
			t.Errorf("the waiter counts %v from a poll %v after the grant was drafted for %v", w.TTL, sent.Sub(drafted), engine.ClaimWindow)
		}
		acquire(t, waiter, b, engine.Granted)
	})
}
