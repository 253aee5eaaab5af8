package cas_test

import (
	"math"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// A mark may be for as long as a time.Duration can be.
func TestMarkForEver(t *testing.T) {
	e := cas.New(castest.NewMemory(), 0)
	r := request("a.1", time.Minute, false)
	held := engine.Held{ID: r.ID, Token: acquire(t, e, r, engine.Granted).Token}
	if err := e.Release(t.Context(), engine.Release{Resource: r.Resource, Held: held, Mark: math.MaxInt64}); err != nil {
		t.Fatal(err)
	}
	acquire(t, e, request("b.1", time.Minute, false), engine.Marked)
}
