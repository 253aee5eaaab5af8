package cas_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
)

// A Snapshot returns when its ctx ends, also while it reads who is alive.
func TestSnapshotIsBoundedByCtx(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHookedClock()
		e := cas.New(s, 0)
		acquire(t, e, request("a.1", time.Minute, false), engine.Granted)
		acquire(t, e, request("b.1", time.Minute, true), engine.Queued)
		time.Sleep(10 * time.Second)
		s.read = func(ctx context.Context, r []cas.Read) ([]cas.Doc, error) {
			if r[0].Key.Space == cas.Clients {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return s.DocumentStore.Read(ctx, r)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := e.Snapshot(ctx, request("", 0, false).Resource)
		if took := time.Since(began); err == nil || took > 1100*time.Millisecond {
			t.Errorf("returned after %v, %v", took, err)
		}
	})
}
