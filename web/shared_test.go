package web_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/web"
)

// counted is an engine that counts what a dashboard reads.
type counted struct {
	engine.Engine
	lists, snapshots, clocks atomic.Int32
	pause                    time.Duration // of a list
}

func (c *counted) List(ctx context.Context, prefix, pattern string) iter.Seq2[engine.Snapshot, error] {
	c.lists.Add(1)
	<-time.After(c.pause)
	return c.Engine.List(ctx, prefix, pattern)
}

func (c *counted) Snapshot(ctx context.Context, res engine.Resource) (engine.Snapshot, error) {
	c.snapshots.Add(1)
	return c.Engine.Snapshot(ctx, res)
}

func (c *counted) Now(ctx context.Context) (time.Time, error) {
	c.clocks.Add(1)
	return c.Engine.Now(ctx)
}

// watch follows pages for a minute of virtual time and returns what the store was sent meanwhile, and in the
// minute after.
func watch(t *testing.T, on *counted, targets ...string) (listed, seen, after int32) {
	h := web.Handler(newClient(t, on, "dashboard"))
	ctx, cancel := context.WithCancel(t.Context())
	var pages sync.WaitGroup
	for i, target := range targets {
		pages.Go(func() {
			time.Sleep(time.Duration(i) * 93 * time.Millisecond) // not all at one moment
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil))
		})
	}
	time.Sleep(time.Minute)
	cancel()
	pages.Wait()
	calls := func() int32 { return on.lists.Load() + on.snapshots.Load() + on.clocks.Load() }
	lists, snapshots, before := on.lists.Load(), on.snapshots.Load(), calls()
	time.Sleep(time.Minute)
	synctest.Wait()
	return lists, snapshots, calls() - before
}

// Ten open pages send the store what one does, and without a page nothing is sent.
func TestOnePageCostsWhatTenCost(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Second} {
		synctest.Test(t, func(t *testing.T) {
			one, _, after := watch(t, &counted{Engine: memory.New(), pause: pause}, "/events?view=")
			if want := int32(time.Minute / max(time.Second, 5*pause)); one < want-1 || one > want+1 {
				t.Errorf("a list takes %v: one page made %d lists in a minute, want %d", pause, one, want)
			}
			ten, snapshots, afterTen := watch(t, &counted{Engine: memory.New(), pause: pause}, "/events?view=", "/events?view=", "/events?view=&sort=name",
				"/events?view=clients", "/events?view=clients&q=a", "/events?view=store", "/events?view=store", "/events?view=", "/events?view=", "/events?view=")
			if ten < one-1 || ten > one+1 || snapshots != 0 {
				t.Errorf("a list takes %v: ten pages made %d lists and %d snapshots, one made %d lists", pause, ten, snapshots, one)
			}
			if after != 0 || afterTen != 0 {
				t.Errorf("%d and %d calls without a page", after, afterTen)
			}
			lists, snapshots, after := watch(t, &counted{Engine: memory.New()}, "/events?view=resource&name=a", "/events?view=resource&name=a", "/events?view=resource&name=a")
			if lists != 0 || snapshots < 59 || snapshots > 61 || after != 0 {
				t.Errorf("three pages of one resource made %d lists and %d snapshots, and %d calls after", lists, snapshots, after)
			}
		})
	}
}

// A change is on every page before two seconds are over.
func TestAChangeIsSeenWithinTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := memory.New()
		c := newClient(t, on, "api")
		h := web.Handler(newClient(t, on, "dashboard"))
		ctx, cancel := context.WithCancel(t.Context())
		var streams sync.WaitGroup
		defer streams.Wait()
		defer cancel()
		for range 30 { // changes at any time of the cycle
			time.Sleep(1370 * time.Millisecond)
			l := lock(t, c, "stock:42")
			time.Sleep(2 * time.Second)
			if status, text := get(t, h, "/api/v1/resources"); status != http.StatusOK || !containsName(text, "stock:42") {
				t.Fatalf("%d: %s", status, text)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		w := &sawName{ResponseRecorder: httptest.NewRecorder(), name: "stock:43", at: make(chan time.Time, 1)}
		streams.Go(func() { h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/events?view=", nil)) })
		time.Sleep(10*time.Second + 10*time.Millisecond) // just after a reading
		began := time.Now()
		lock(t, c, "stock:43")
		if took := (<-w.at).Sub(began); took > 2*time.Second {
			t.Errorf("it was seen after %v", took)
		}
	})
}

func containsName(text, name string) bool { return strings.Contains(text, `"resource":"`+name+`"`) }

// sawName is the answer of a stream that says when a name was in it first.
type sawName struct {
	*httptest.ResponseRecorder
	name string
	at   chan time.Time
	once sync.Once
}

func (w *sawName) Write(p []byte) (int, error) {
	if strings.Contains(string(p), w.name) {
		w.once.Do(func() { w.at <- time.Now() })
	}
	return len(p), nil
}
