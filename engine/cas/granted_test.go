package cas_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// A holder that was granted by a message has an old document. It reads before it releases, because a swap
// that fails costs a commit on some stores; one that has the document does not read.
func TestGrantedByMessage(t *testing.T) {
	m := castest.NewMemory()
	s := &hooked{DocumentStore: m}
	e, other := cas.New(s, 0), cas.New(m, 0)
	var reads, failed int
	s.read = func(ctx context.Context, r []cas.Read) ([]cas.Doc, error) {
		reads++
		return m.Read(ctx, r)
	}
	s.swap = func(ctx context.Context, c []cas.Change) ([]cas.Outcome, error) {
		outs, err := m.Swap(ctx, c)
		for _, o := range outs {
			if !o.Swapped {
				failed++
			}
		}
		return outs, err
	}
	granted := make(chan engine.Wakeup, 2)
	for _, client := range []string{"b", "c"} {
		l, err := e.Listen(t.Context(), "p", client, func(w engine.Wakeup) { granted <- w })
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
	}
	a, b, c := request("a.1", time.Minute, true), request("b.1", time.Minute, true), request("c.1", time.Minute, true)
	held := acquire(t, other, a, engine.Granted)
	acquire(t, e, b, engine.Queued)
	acquire(t, e, c, engine.Queued)
	reads, failed = 0, 0
	release(t, other, a, held.Token)
	release(t, e, b, (<-granted).Token)
	if reads != 1 || failed != 0 {
		t.Errorf("granted by another process: %d reads and %d swaps that failed, want 1 and 0", reads, failed)
	}
	reads = 0
	release(t, e, c, (<-granted).Token)
	if reads != 0 || failed != 0 {
		t.Errorf("granted by this process: %d reads and %d swaps that failed, want none", reads, failed)
	}
}
