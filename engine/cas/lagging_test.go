package cas_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// lagging is a store whose reads can be made to return documents of the past.
type lagging struct {
	*castest.Memory
	mu     sync.Mutex
	frozen []cas.Doc // what each Read returns; nil: what is there
}

func (l *lagging) ReadsMayLag() {}

func (l *lagging) Read(ctx context.Context, reads []cas.Read) ([]cas.Doc, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.frozen != nil {
		return slices.Clone(l.frozen), nil
	}
	return l.Memory.Read(ctx, reads)
}

func (l *lagging) freeze(docs []cas.Doc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.frozen = docs
}

// A poll that was answered from an old document says nothing about when a grant was made, so
// that the waiter's trust window must not count from it.
func TestGrantOfALaggingStoreCountsFromNoPoll(t *testing.T) {
	store := &lagging{Memory: castest.NewMemory()}
	holder, waiter := cas.New(store, 0), cas.New(store, 0)
	a, b := request("a.1", engine.ClaimWindow, true), request("b.1", engine.ClaimWindow, true)
	ask := func(e *cas.Engine, r engine.Request, want engine.Status) engine.Answer {
		t.Helper()
		answer, err := e.Acquire(t.Context(), r)
		if err != nil || answer.Status != want {
			t.Fatalf("%v, %v, want %v", answer.Status, err, want)
		}
		return answer
	}
	wakes := make(chan engine.Wakeup, 16)
	l, err := waiter.Listen(t.Context(), b.Resource.Prefix, b.Client.ID, func(w engine.Wakeup) { wakes <- w })
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	held := ask(holder, a, engine.Granted)
	ask(waiter, b, engine.Queued)
	before, err := store.Memory.Read(t.Context(), []cas.Read{{Key: cas.Key{Space: cas.Resources, Prefix: b.Resource.Prefix, Name: b.Resource.Name}}})
	if err != nil {
		t.Fatal(err)
	}
	store.freeze(before)
	if err := holder.Release(t.Context(), engine.Release{Resource: a.Resource, Held: engine.Held{ID: a.ID, Token: held.Token}}); err != nil {
		t.Fatal(err)
	}
	ask(waiter, b, engine.Queued) // b has the lease, but the read is old
	if w := <-wakes; w.Kind != engine.WakeGrant || w.ID != b.ID || w.TTL != 0 {
		t.Errorf("got %+v, want a grant of which nothing may be used before the next request", w)
	}
	store.freeze(nil)
	ask(waiter, b, engine.Granted)
}
