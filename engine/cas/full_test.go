package cas_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// fill makes a document as large as it may be.
func fill(t *testing.T, e *cas.Engine) {
	t.Helper()
	for i, n := 0, 20_000; n > 0; i++ {
		r := semaphore(fmt.Sprintf("f.%d", i), time.Hour, true)
		r.Reason = strings.Repeat("x", n)
		if _, err := e.Acquire(t.Context(), r); errors.Is(err, engine.ErrDenied) {
			n /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// renewSlowly begins a renewal the swap of which takes a while: what comes when it has returned is one change.
func renewSlowly(t *testing.T, e *cas.Engine, s *hooked, r engine.Request, token uint64) {
	t.Helper()
	s.swap = func(ctx context.Context, c []cas.Change) ([]cas.Outcome, error) {
		s.swap = nil
		time.Sleep(100 * time.Millisecond)
		return s.DocumentStore.Swap(ctx, c)
	}
	go func() { _ = renew(t, e, r, token) }()
	time.Sleep(50 * time.Millisecond)
	synctest.Wait()
}

// A withdrawal needs room for a tombstone, also in a full document.
func TestWithdrawOfAFullDocument(t *testing.T) {
	e := cas.New(castest.NewMemory(), 0)
	fill(t, e)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	r := engine.Release{Resource: request("", 0, false).Resource, Held: engine.Held{ID: "never." + strings.Repeat("y", 100)}, Withdraw: true}
	if err := e.Release(ctx, r); err != nil {
		t.Error(err)
	}
}

// Who is in a full document already is not refused together with a newcomer.
func TestRepeatedRequestInAFullDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hooked{DocumentStore: castest.NewMemory()}
		e := cas.New(s, 0)
		first := semaphore("first.1", time.Hour, true)
		held := acquire(t, e, first, engine.Granted)
		fill(t, e)
		renewSlowly(t, e, s, first, held.Token)
		var both sync.WaitGroup
		both.Go(func() {
			if _, err := e.Acquire(t.Context(), semaphore("newcomer.1", time.Hour, true)); !errors.Is(err, engine.ErrDenied) {
				t.Errorf("a newcomer: %v", err)
			}
		})
		both.Go(func() {
			if a, err := e.Acquire(t.Context(), first); err != nil || a.Status != engine.Granted {
				t.Errorf("the holder's own request: %v, %v", a.Status, err)
			}
		})
		both.Wait()
	})
}

// Of very many newcomers in one change as many are let in as fit, and the others refused.
func TestNewcomersOfAFullDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hooked{DocumentStore: castest.NewMemory()}
		e := cas.New(s, 0)
		first := semaphore("first.1", time.Hour, true)
		held := acquire(t, e, first, engine.Granted)
		renewSlowly(t, e, s, first, held.Token)
		var all sync.WaitGroup
		var in atomic.Int64
		newcomer := func(i int) error {
			r := semaphore(fmt.Sprintf("n.%d", i), time.Hour, true)
			r.Reason = strings.Repeat("x", 1000)
			_, err := e.Acquire(t.Context(), r)
			return err
		}
		for i := range 1200 {
			all.Go(func() {
				if err := newcomer(i); err == nil {
					in.Add(1)
				} else if !errors.Is(err, engine.ErrDenied) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		more := 0
		for i := 1200; newcomer(i) == nil; i++ {
			more++
		}
		if n := in.Load(); n < 300 || more > 20 {
			t.Errorf("%d were let in, and %d more after them", n, more)
		}
	})
}
