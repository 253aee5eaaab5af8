package cas_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// A lease is yielded to a waiter that polls, though the process that yields read its beat long ago.
func TestYieldToALiveWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := castest.NewMemory()
		holder, waiter := cas.New(m, 0), cas.New(m, 0)
		a, b := request("a.1", time.Minute, true), request("b.1", time.Minute, true)
		held := acquire(t, holder, a, engine.Granted)
		acquire(t, waiter, b, engine.Queued)
		if err := renew(t, holder, a, held.Token); err != nil { // its process sees the waiter
			t.Fatal(err)
		}
		for range 7 {
			time.Sleep(900 * time.Millisecond)
			acquire(t, waiter, b, engine.Queued)
		}
		again := request("a.2", time.Minute, true)
		again.Yields = engine.Held{ID: a.ID, Token: held.Token}
		acquire(t, holder, again, engine.Queued)
		acquire(t, waiter, b, engine.Granted)
	})
}
