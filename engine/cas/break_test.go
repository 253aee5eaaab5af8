package cas_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// A break of a mark whose answer was lost.
func TestBreakOfAMarkWhoseAnswerWasLost(t *testing.T) {
	m := castest.NewMemory()
	s := &hooked{DocumentStore: m}
	e, other := cas.New(s, 0), cas.New(m, 0)
	r := request("a.1", time.Minute, false)
	held := acquire(t, e, r, engine.Granted)
	if err := e.Release(t.Context(), engine.Release{Resource: r.Resource, Held: engine.Held{ID: r.ID, Token: held.Token}, Mark: time.Hour}); err != nil {
		t.Fatal(err)
	}
	s.swap = func(ctx context.Context, c []cas.Change) ([]cas.Outcome, error) {
		s.swap = nil
		if _, err := m.Swap(ctx, c); err != nil {
			t.Error(err)
		}
		acquire(t, other, request("b.1", time.Minute, false), engine.Granted)
		return nil, errCut
	}
	if err := e.Break(t.Context(), r.Resource, engine.Break{ID: engine.MarkID}); err != nil {
		t.Error(err)
	}
}
