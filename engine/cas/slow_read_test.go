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

// A lease that was renewed while a reply with the document of before was on its way is not
// shown as expired.
func TestSlowReadShowsTheLease(t *testing.T) {
	clock := func() cas.DocumentStore {
		return &castest.Timed{Memory: castest.NewMemory(), Clock: time.Now}
	}
	for name, store := range map[string]func() cas.DocumentStore{
		"store with a clock":    clock,
		"store without a clock": func() cas.DocumentStore { return castest.NewMemory() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := store()
				holder := cas.New(s, 0)
				slow := &hooked{DocumentStore: s}
				var link cas.DocumentStore = slow
				if timed, ok := s.(cas.TimedStore); ok {
					link = &hookedTimed{slow, timed}
				}
				observer := cas.New(link, 0)
				r := request("a.1", time.Second, false)
				held := acquire(t, holder, r, engine.Granted)
				holders := func() int {
					t.Helper()
					b, err := observer.Peek(t.Context(), r.Resource)
					if err != nil {
						t.Fatal(err)
					}
					return len(b.Holders)
				}
				if holders() != 1 {
					t.Fatal("the lease is not shown")
				}
				time.Sleep(900 * time.Millisecond)
				slow.read = func(ctx context.Context, reads []cas.Read) ([]cas.Doc, error) {
					docs, err := s.Read(ctx, reads)
					if err := renew(t, holder, r, held.Token); err != nil {
						t.Error(err)
					}
					time.Sleep(200 * time.Millisecond)
					return docs, err
				}
				if holders() != 1 {
					t.Error("a lease that is renewed is not shown")
				}
				slow.read = nil
				holders() // from here on the observer times the renewed lease
				time.Sleep(time.Second)
				if holders() != 0 {
					t.Error("a lease is shown after its end")
				}
			})
		})
	}
}

// hookedTimed is a hooked store with the clock of another.
type hookedTimed struct {
	*hooked
	clock cas.TimedStore
}

func (h *hookedTimed) Now(ctx context.Context) (time.Time, error) { return h.clock.Now(ctx) }
