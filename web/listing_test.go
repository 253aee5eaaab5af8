package web

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// slow is an engine whose snapshots take a second.
type slow struct {
	engine.Engine
	calls, now, most atomic.Int32
}

func (s *slow) Now(ctx context.Context) (time.Time, error) {
	s.calls.Add(1)
	return s.Engine.Now(ctx)
}

func (s *slow) Snapshot(ctx context.Context, res engine.Resource) (engine.Snapshot, error) {
	s.calls.Add(1)
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for most := s.most.Load(); n > most && !s.most.CompareAndSwap(most, n); most = s.most.Load() {
	}
	<-time.After(time.Second)
	return s.Engine.Snapshot(ctx, res)
}

// Names that browsers send neither fill the memory nor flood the store.
func TestManyNamesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := &slow{Engine: memory.New()}
		c, err := holdfast.New(on)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		d := Handler(c).(*dashboard)
		for _, name := range []string{"", "\xff", strings.Repeat("a", holdfast.MaxNameLen+1)} {
			if _, err := d.one(name); !errors.Is(err, errBadRequest) {
				t.Errorf("%.9q: %v, want a bad request", name, err)
			}
		}
		if n := on.calls.Load(); n != 0 || len(d.resources) != 0 {
			t.Errorf("names that are none made %d calls and %d entries", n, len(d.resources))
		}
		var readers sync.WaitGroup
		for i := range 5 * maxSoles {
			readers.Go(func() {
				l, err := d.one(fmt.Sprint("at once ", i))
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := l.get(t.Context()); err != nil || !got.ok {
					t.Errorf("%+v, %v; want a reading", got, err)
				}
			})
		}
		readers.Wait()
		if most := on.most.Load(); most != maxSoles {
			t.Errorf("%d readings at a time, want %d", most, maxSoles)
		}
		for i := range 3 * maxWatched {
			if _, err := d.one(fmt.Sprint("one by one ", i)); err != nil {
				t.Fatal(err)
			}
			if _, err := d.one("always"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		if n := len(d.resources); n != maxWatched || d.resources["always"] == nil {
			t.Errorf("%d resources are watched, want %d with the one that is looked at all the time", n, maxWatched)
		}
	})
}

// Only so many free resources are remembered, and those in use whatever their number.
func TestFreeResourcesAreBounded(t *testing.T) {
	var o observer
	for i := range 2 * maxIdle {
		o.see(holdfast.Snapshot{Resource: fmt.Sprint("free ", i)}, instant(0))
	}
	o.see(holdfast.Snapshot{Resource: "used", Holders: []holdfast.Holder{held("a", time.Second)}}, instant(0))
	if n := len(o.all); n != maxIdle+1 || o.all["used"] == nil {
		t.Errorf("%d are remembered, want %d with the one in use", n, maxIdle+1)
	}
}
