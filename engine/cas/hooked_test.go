package cas_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// hooked is a store whose calls a test can change. A nil hook passes the call on.
type hooked struct {
	cas.DocumentStore
	read func(ctx context.Context, reads []cas.Read) ([]cas.Doc, error)
	swap func(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error)
}

func (h *hooked) Read(ctx context.Context, reads []cas.Read) ([]cas.Doc, error) {
	if h.read != nil {
		return h.read(ctx, reads)
	}
	return h.DocumentStore.Read(ctx, reads)
}

func (h *hooked) Swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	if h.swap != nil {
		return h.swap(ctx, changes)
	}
	return h.DocumentStore.Swap(ctx, changes)
}

// hookedClock is a hooked store with a clock, which a test can set.
type hookedClock struct {
	hooked
	ahead time.Duration
	now   func(ctx context.Context) // before the clock is read
}

func newHookedClock() *hookedClock {
	h := &hookedClock{}
	h.DocumentStore = &castest.Timed{Memory: castest.NewMemory(), Clock: func() time.Time { return time.Now().Add(h.ahead) }}
	return h
}

// link returns a way to the store that has hooks of its own.
func (h *hookedClock) link() *hookedClock { return &hookedClock{hooked: hooked{DocumentStore: h}} }

func (h *hookedClock) Now(ctx context.Context) (time.Time, error) {
	if h.now != nil {
		h.now(ctx)
	}
	return h.DocumentStore.(cas.TimedStore).Now(ctx)
}

// acquire makes a request, and fails the test if the answer is another than wanted.
func acquire(t *testing.T, e *cas.Engine, r engine.Request, want engine.Status) engine.Answer {
	t.Helper()
	a, err := e.Acquire(t.Context(), r)
	if err != nil || a.Status != want {
		t.Fatalf("%s: %v, %v, want %v", r.ID, a.Status, err, want)
	}
	return a
}

// renew renews the lease of a request.
func renew(t *testing.T, e *cas.Engine, r engine.Request, token uint64) error {
	t.Helper()
	return e.Renew(t.Context(), []engine.Renewal{{Resource: r.Resource, Held: engine.Held{ID: r.ID, Token: token}, TTL: r.TTL}})[0]
}

// release releases the lease of a request, or withdraws it if the token is 0.
func release(t *testing.T, e *cas.Engine, r engine.Request, token uint64) {
	t.Helper()
	err := e.Release(t.Context(), engine.Release{Resource: r.Resource, Held: engine.Held{ID: r.ID, Token: token}, Withdraw: token == 0})
	if err != nil {
		t.Error(err)
	}
}
