package enginetest

import (
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast/engine"
)

// releaseBatch: if an engine releases many leases in few calls, each has the
// outcome that it would have by itself.
func releaseBatch(s *scene) {
	e, ok := s.engine.(engine.BatchReleaser)
	if !ok {
		return
	}
	const n = 200
	a, b := s.party("a"), s.party("b")
	var batch []engine.Release
	for i := range n {
		on := s.on(fmt.Sprint("stock:", i))
		r := a.request()
		r.Resource = on.res
		batch = append(batch, engine.Release{Resource: on.res, Held: on.hold(r)})
	}
	next := b.request()
	next.Resource = batch[0].Resource
	if got := s.acquire(next); got.Status != engine.Queued {
		s.Fatalf("got %+v, want queued", got)
	}
	if err := e.Release(s.ctx, batch[1]); err != nil {
		s.Fatal(err)
	}
	batch[2].ID, batch[2].Token = "nobody.1", 0
	batch[3].Withdraw = true
	batch[4].Resource.Name = ""
	for i, err := range e.ReleaseBatch(s.ctx, batch) {
		_, gone := errors.AsType[*engine.NotHeldError](err)
		switch {
		case i == 2 && !gone, i == 4 && !errors.Is(err, engine.ErrDenied), i != 2 && i != 4 && err != nil:
			s.Errorf("release %d: %v", i, err)
		}
	}
	if got := s.acquire(next); got.Status != engine.Granted {
		s.Errorf("the waiter got %+v, want the lease", got)
	}
	for i := range n {
		snap := s.on(fmt.Sprint("stock:", i)).snapshot()
		if held := i == 0 || i == 2 || i == 4; len(snap.Holders) == 1 != held {
			s.Errorf("%d: got %+v", i, snap.Holders)
		}
	}
	for i, err := range e.ReleaseBatch(s.ctx, batch[5:]) {
		if err != nil {
			s.Errorf("again, release %d: %v", i+5, err)
		}
	}
	if errs := e.ReleaseBatch(s.ctx, nil); len(errs) != 0 {
		s.Errorf("of none: %v", errs)
	}
}
