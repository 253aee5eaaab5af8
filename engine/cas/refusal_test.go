package cas_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// readOnlyStore refuses all changes at once.
type readOnlyStore struct {
	*castest.Memory
	swaps int
}

var errReadOnly = errors.New("read-only")

func (s *readOnlyStore) Swap(context.Context, []cas.Change) ([]cas.Outcome, error) {
	s.swaps++
	return nil, errReadOnly
}

// An operator's break shares a call with a change of a damaged document, for which the store denies the call after
// it has made the break. The call for the break alone finds another holder there, and the break has had its effect.
func TestDamagedDocumentInACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := castest.NewMemory()
		s := &hooked{DocumentStore: m}
		e, other := cas.New(s, 0), cas.New(m, 0)
		named := func(name, id string) engine.Request {
			r := request(id, time.Minute, false)
			r.Resource.Name = name
			return r
		}
		acquire(t, e, named("good", "a.1"), engine.Granted)
		shared := 0
		s.swap = func(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
			time.Sleep(time.Millisecond) // others come meanwhile
			if !slices.ContainsFunc(changes, func(c cas.Change) bool { return c.Key.Name == "bad" }) {
				return m.Swap(ctx, changes)
			}
			for _, c := range changes {
				if c.Key.Name != "good" {
					continue
				}
				shared++
				if _, err := m.Swap(ctx, []cas.Change{c}); err != nil {
					t.Error(err)
				}
				acquire(t, other, named("good", "b.1"), engine.Granted)
			}
			return nil, cas.OneOfMany(engine.ErrDenied)
		}
		var all sync.WaitGroup
		for i := range 8 { // of which the first calls have one each
			all.Go(func() { acquire(t, e, named(fmt.Sprint("other ", i), "a.2"), engine.Granted) })
		}
		synctest.Wait()
		all.Go(func() {
			if _, err := e.Acquire(t.Context(), named("bad", "a.3")); !errors.Is(err, engine.ErrDenied) {
				t.Errorf("the damaged resource: %v, want it denied", err)
			}
		})
		all.Go(func() {
			if err := e.Break(t.Context(), named("good", "").Resource, engine.Break{ID: "a.1", Force: true}); err != nil {
				t.Errorf("the break: %v", err)
			}
		})
		all.Wait()
		if shared != 1 {
			t.Fatalf("%d calls had both changes, want 1: the test shows nothing", shared)
		}
	})
}

// A store that refuses changes is not flooded with them, and the error has its reason.
func TestRefusedChangesPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &readOnlyStore{Memory: castest.NewMemory()}
		began := time.Now()
		_, err := cas.New(s, 0).Acquire(t.Context(), request("a.1", time.Minute, false))
		if !errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, errReadOnly) {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if s.swaps < 5 || s.swaps > 50 || time.Since(began) > cas.DefaultTimeout+time.Second {
			t.Errorf("%d changes in %v", s.swaps, time.Since(began))
		}
	})
}
