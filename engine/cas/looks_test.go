package cas_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// A look whose answer is late must not replace what the process knows of the document since.
func TestSlowLookLosesNoSighting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := castest.NewMemory()
		s := &hooked{DocumentStore: m}
		holder, e := cas.New(m, 0), cas.New(s, 0)
		r := request("a.1", 5*time.Second, false)
		held := acquire(t, holder, r, engine.Granted)
		b := request("b.1", 5*time.Second, true)
		acquire(t, e, b, engine.Queued)
		s.read = func(ctx context.Context, reads []cas.Read) ([]cas.Doc, error) {
			s.read = nil
			docs, err := m.Read(ctx, reads)
			time.Sleep(500 * time.Millisecond)
			return docs, err
		}
		go func() {
			if _, err := e.Peek(t.Context(), r.Resource); err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(100 * time.Millisecond)
		if err := renew(t, holder, r, held.Token); err != nil {
			t.Fatal(err)
		}
		acquire(t, e, b, engine.Queued)
		for range 20 { // the holder is dead
			time.Sleep(time.Second)
			a, err := e.Acquire(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			if a.Status == engine.Granted {
				return
			}
		}
		t.Error("the lease of a dead holder has not ended after four times its TTL")
	})
}
