package holdfast_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// The store answers renewals, but not the requests for one resource. Callers of its line in the process fall back together.
func TestLineFallsBackTogether(t *testing.T) {
	for _, p := range []holdfast.Fallback{holdfast.FailOpen, holdfast.LocalOnly} {
		t.Run(p.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFaulty()
				e.failAcquires("dead", hang)
				c := newClient(t, e)
				for i := range 10 { // renewals are answered all the time
					mustLock(t, c.Mutex(fmt.Sprint(i), holdfast.WithTTL(holdfast.MinTTL)).Lock, context.Background())
					time.Sleep(holdfast.MinTTL / 30)
				}
				m := c.Mutex("dead", holdfast.WithFallback(p))
				var waits []<-chan result
				start := time.Now()
				for range 20 {
					waits = append(waits, lockSoon(context.Background(), m.Lock))
					synctest.Wait()
				}
				limit := holdfast.FallbackTimeout + 10*time.Millisecond
				for i, w := range waits {
					r := wantGrant(t, w)
					wantFallback(t, r.lease, p)
					if took := r.at.Sub(start); took > limit {
						t.Errorf("caller %d fell back after %v", i, took)
					}
					if p == holdfast.LocalOnly { // the next one waits, and the store is tried again once a second
						time.Sleep(20 * time.Millisecond)
						limit = time.Since(start) + 10*time.Millisecond
					}
					mustRelease(t, r.lease)
				}
				if c.Stats().FallsBack {
					t.Error("the store is silent, although it answers renewals")
				}
			})
		})
	}
}

// The next caller of a line has its own timeout, counted from when the request was sent that made the one before fall back.
func TestSilenceOfALineIsOfItsFirstRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		e.Set(func() {
			e.OnAcquire = func(ctx context.Context, r engine.Request) (engine.Answer, error) { return engine.Answer{}, hang(ctx) }
		})
		m := newClient(t, e).Mutex("x", failOpen)
		short, cancel := context.WithTimeout(context.Background(), 600*time.Millisecond)
		defer cancel()
		start := time.Now()
		first := lockSoon(short, m.Lock)
		synctest.Wait()
		second := lockSoon(context.Background(), m.Lock)
		if took := wantGrant(t, first).at.Sub(start); took > 310*time.Millisecond {
			t.Errorf("the first caller fell back after %v", took)
		}
		if took := wantGrant(t, second).at.Sub(start); took < holdfast.FallbackTimeout || took > holdfast.FallbackTimeout+10*time.Millisecond {
			t.Errorf("the second caller fell back after %v", took)
		}
	})
}
