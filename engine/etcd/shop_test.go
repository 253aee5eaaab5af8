package etcd_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// shop has items that are sold one at a time, each under a lease. It sees two sellers at once,
// and a token that is not above the one before.
type shop struct {
	selling atomic.Int32
	sold    atomic.Int64

	mu    sync.Mutex
	token uint64
}

// sell sells one item, if it gets the lease before ctx ends.
func (s *shop) sell(t testing.TB, ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	if n := s.selling.Add(1); n != 1 {
		redistest.Broken(t, "%d sellers at once", n)
	}
	s.mu.Lock()
	if lease.Token() <= s.token {
		redistest.Broken(t, "token %d after %d", lease.Token(), s.token)
	}
	s.token = lease.Token()
	s.mu.Unlock()
	s.sold.Add(1)
	s.selling.Add(-1)
	if err := lease.Release(context.Background()); err != nil {
		return releaseError{err}
	}
	return nil
}

// releaseError is the error of a release. If the store was away, the client repeats it.
type releaseError struct{ error }

func (e releaseError) Unwrap() error { return e.error }

// repeated reports whether an error is of a release that the client repeats.
func repeated(err error) bool {
	var release releaseError
	return errors.As(err, &release) && errors.Is(err, holdfast.ErrUnavailable)
}

// open runs sellers of several clients, each with turns, until all have had theirs.
func (s *shop) open(t testing.TB, ctx context.Context, sellers, turns int, clients ...*holdfast.Client) {
	var all sync.WaitGroup
	for i := range sellers {
		m := clients[i%len(clients)].Mutex("stock:42")
		all.Go(func() {
			for range turns {
				if err := s.sell(t, ctx, m); err != nil {
					t.Errorf("seller %d: %v", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	if got := int(s.sold.Load()); got != sellers*turns {
		t.Errorf("%d items sold, want %d", got, sellers*turns)
	}
}

func TestNoOversell(t *testing.T) {
	var s shop
	s.open(t, within(t, waitTimeout), 8, 20, newClient(t, single(t)), newClient(t, single(t)))
}
