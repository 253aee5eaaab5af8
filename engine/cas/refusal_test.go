package cas_test

import (
	"context"
	"errors"
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
