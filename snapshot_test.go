package holdfast_test

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

func TestSnapshotAndList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := memory.New()
		c := newClient(t, e, holdfast.WithName("a"), holdfast.WithMeta(holdfast.Meta{Host: "h", PID: 1}))
		other := newClient(t, e, holdfast.WithName("b"), holdfast.WithMeta(holdfast.Meta{Host: "i", PID: 2}))
		if s, err := c.Snapshot(context.Background(), "nobody"); err != nil || s.Resource != "nobody" || len(s.Holders)+len(s.Waiters) > 0 {
			t.Errorf("unused resource: %+v, %v", s, err)
		}
		since := time.Now()
		l := mustLock(t, c.Mutex("stock:1", holdfast.WithReason("count"), holdfast.WithTTL(10*time.Second)).Lock, context.Background())
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		waiter := lockSoon(ctx, other.Mutex("stock:1", holdfast.WithReason("sell")).Lock)
		second := mustLock(t, c.Mutex("stock:2").Lock, context.Background())
		third := mustLock(t, c.Mutex("report").Lock, context.Background())
		synctest.Wait()

		s, err := c.Snapshot(context.Background(), "stock:1")
		if err != nil || s.Kind != "mutex" || s.Capacity != 1 || s.Token < l.Token() || len(s.Holders) != 1 || len(s.Waiters) != 1 {
			t.Fatalf("%+v, %v", s, err)
		}
		want := holdfast.Holder{ID: l.HolderID(), Name: "a", Host: "h", PID: 1, Reason: "count", Weight: 1,
			Token: l.Token(), Since: s.Holders[0].Since, TTL: 9 * time.Second}
		if s.Holders[0] != want || !want.Since.Equal(since) {
			t.Errorf("holder %+v; want %+v", s.Holders[0], want)
		}
		if w := s.Waiters[0]; w.Name != "b" || w.Host != "i" || w.PID != 2 || w.Reason != "sell" || w.Weight != 1 || !w.Since.Equal(time.Now()) {
			t.Errorf("waiter %+v", w)
		}

		var names []string
		for s, err := range c.List(context.Background(), "stock:*") {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, s.Resource)
		}
		slices.Sort(names)
		if !slices.Equal(names, []string{"stock:1", "stock:2"}) {
			t.Errorf("List: %v", names)
		}
		for range c.List(context.Background(), "*") {
			break
		}
		ended, end := context.WithCancel(context.Background())
		end()
		for _, err := range c.List(ended, "*") {
			wantErr(t, err, holdfast.ErrUnavailable)
		}
		cancel()
		<-waiter
		for _, l := range []*holdfast.Lease{l, second, third} {
			mustRelease(t, l)
		}
	})
}

// A List ends with the client, also if its ctx never ends.
func TestListEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, longList{memory.New()})
		var closed sync.WaitGroup
		listed := 0
		for s, err := range c.List(context.Background(), "*") {
			if err != nil {
				wantErr(t, err, holdfast.ErrClosed)
				break
			}
			if listed++; s.Resource == "second" {
				closed.Go(func() { _ = c.Close() })
				synctest.Wait()
			}
		}
		if closed.Wait(); listed != 2 {
			t.Errorf("listed %d", listed)
		}
	})
}

// longList is a store that lists four resources.
type longList struct{ *memory.Engine }

func (l longList) List(context.Context, string, string) iter.Seq2[engine.Snapshot, error] {
	return func(yield func(engine.Snapshot, error) bool) {
		for _, name := range []string{"first", "second", "third", "fourth"} {
			if !yield(engine.Snapshot{Resource: engine.Resource{Name: name}}, nil) {
				return
			}
		}
	}
}

// Operators type holder IDs: no shell and no flag parser may take one for its
// own.
func TestHolderIDsAreSafeToType(t *testing.T) {
	safe := regexp.MustCompile(`^[0-9a-v]{13}\.[0-9a-v]{12}$`)
	e := memory.New()
	for range 50 {
		c := newClient(t, e)
		l := mustLock(t, c.Mutex("x").Lock, t.Context())
		if !safe.MatchString(l.HolderID()) {
			t.Errorf("holder ID %q", l.HolderID())
		}
		mustRelease(t, l)
	}
}

// Close ends a List also while the store finds nothing that matches.
func TestListOfNothingEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, longScan{memory.New()})
		ended := make(chan error, 1)
		go func() {
			for _, err := range c.List(context.Background(), "none*") {
				ended <- err
			}
			close(ended)
		}()
		time.Sleep(time.Second / 2)
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("Close took %v", took)
		}
		wantErr(t, <-ended, holdfast.ErrClosed)
	})
}

// longScan is a store that needs a minute to find that no name matches.
type longScan struct{ *memory.Engine }

func (longScan) List(ctx context.Context, _, _ string) iter.Seq2[engine.Snapshot, error] {
	return func(yield func(engine.Snapshot, error) bool) {
		select {
		case <-time.After(time.Minute):
		case <-ctx.Done():
			yield(engine.Snapshot{}, fmt.Errorf("%w: %w", engine.ErrUnavailable, ctx.Err()))
		}
	}
}
