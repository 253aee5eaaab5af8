package cas_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// A store that was restored from a copy has older stamps. Those that follow are not taken for the ones that
// were there before, whose time is over.
func TestStampsOfARestoredStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := castest.NewMemory()
		holder, other := cas.New(s, 0), cas.New(s, 0)
		r := request("a.1", 10*time.Second, false)
		held := acquire(t, holder, r, engine.Granted)
		key := cas.Key{Space: cas.Resources, Prefix: "p", Name: "n"}
		old, _ := s.Read(t.Context(), []cas.Read{{Key: key}})
		time.Sleep(time.Second)
		if err := renew(t, holder, r, held.Token); err != nil {
			t.Fatal(err)
		}
		acquire(t, other, request("b.1", time.Second, false), engine.Busy)
		s.Wipe()
		if outs, err := s.Swap(t.Context(), []cas.Change{{Key: key, Value: old[0].Value, Keep: time.Hour}}); err != nil || !outs[0].Swapped {
			t.Fatal(err)
		}
		time.Sleep(8 * time.Second)
		if err := renew(t, holder, r, held.Token); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		acquire(t, other, request("c.1", time.Second, false), engine.Busy)
	})
}

// A request that is repeated after a loss of data is granted anew under the same ID.
func TestStampsAfterALossOfData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := castest.NewMemory()
		holder, other := cas.New(s, 0), cas.New(s, 0)
		r := request("a.1", 10*time.Second, false)
		acquire(t, holder, r, engine.Granted)
		acquire(t, other, request("b.1", time.Second, false), engine.Busy)
		time.Sleep(8 * time.Second)
		s.Wipe()
		acquire(t, holder, r, engine.Granted) // the answer to the first was lost
		time.Sleep(5 * time.Second)
		acquire(t, other, request("c.1", time.Second, false), engine.Busy)
	})
}
