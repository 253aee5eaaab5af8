package command

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// TestKindOutage lets the store fail between an attempt and the next look: a wait continues, a try does not.
func TestKindOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		either := func() *eitherKind {
			looks = 0
			mutex := func(context.Context) (*holdfast.Lease, error) { return nil, holdfast.ErrMismatch }
			rw := func(context.Context) (*holdfast.Lease, error) { return &holdfast.Lease{}, nil }
			return &eitherKind{kind: engine.KindMutex, mutex: lock{wait: mutex, try: mutex}, rw: lock{wait: rw, try: rw},
				inUse: func(context.Context) (engine.Kind, error) {
					if looks++; looks <= 5 {
						return "", holdfast.ErrUnavailable
					}
					return engine.KindRW, nil
				}}
		}
		if lease, err := either().lock().wait(t.Context()); lease == nil || err != nil || looks != 6 {
			t.Errorf("wait: %v after %d looks, want the lease after 6", err, looks)
		}
		if _, err := either().lock().try(t.Context()); !errors.Is(err, holdfast.ErrUnavailable) || looks != 1 {
			t.Errorf("try: %v after %d looks, want that the store is away after 1", err, looks)
		}
		ctx, cancel := context.WithTimeout(t.Context(), lookEvery)
		defer cancel()
		if _, err := either().lock().wait(ctx); !errors.Is(err, holdfast.ErrUnavailable) {
			t.Errorf("wait that ended: %v, want that the store is away", err)
		}
	})
}

// TestEitherKind changes the kind in use between an attempt and the next look at the resource.
func TestEitherKind(t *testing.T) {
	const mutex, rw, pool, free = engine.KindMutex, engine.KindRW, engine.KindSemaphore, engine.Kind("")
	var changing []engine.Kind
	for range mostKinds / 2 {
		changing = append(changing, rw, mutex)
	}
	errAway := errors.New("away")
	for name, test := range map[string]struct {
		used  []engine.Kind // at each attempt
		found []engine.Kind // by the look after it
		asked []engine.Kind
		err   error
	}{
		"free":              {[]engine.Kind{free}, nil, []engine.Kind{mutex}, nil},
		"the same":          {[]engine.Kind{mutex}, nil, []engine.Kind{mutex}, nil},
		"the other":         {[]engine.Kind{rw, rw}, []engine.Kind{rw}, []engine.Kind{mutex, rw}, nil},
		"free again":        {[]engine.Kind{rw, free}, []engine.Kind{free}, []engine.Kind{mutex, mutex}, nil},
		"changes":           {[]engine.Kind{rw, mutex, mutex}, []engine.Kind{rw, mutex}, []engine.Kind{mutex, rw, mutex}, nil},
		"always the other":  {changing, changing, append([]engine.Kind{mutex}, changing[:mostKinds-1]...), holdfast.ErrMismatch},
		"a semaphore":       {[]engine.Kind{pool}, []engine.Kind{pool}, []engine.Kind{mutex}, holdfast.ErrMismatch},
		"the store is away": {[]engine.Kind{rw}, nil, []engine.Kind{mutex}, errAway},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []engine.Kind
				as := func(kind engine.Kind) lock {
					return lock{try: func(context.Context) (*holdfast.Lease, error) {
						used := test.used[len(asked)]
						asked = append(asked, kind)
						if used != free && used != kind {
							return nil, holdfast.ErrMismatch
						}
						return &holdfast.Lease{}, nil
					}}
				}
				either := &eitherKind{kind: mutex, mutex: as(mutex), rw: as(rw), inUse: func(context.Context) (engine.Kind, error) {
					if len(test.found) < len(asked) {
						return "", errAway
					}
					return test.found[len(asked)-1], nil
				}}
				lease, err := either.lock().try(t.Context())
				if !slices.Equal(asked, test.asked) || !errors.Is(err, test.err) || (lease == nil) != (err != nil) {
					t.Errorf("asked for %q and got %v; want %q, %v", asked, err, test.asked, test.err)
				}
			})
		})
	}
}
