package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/web"
)

// charts returns those of the API by name.
func charts(t *testing.T, h http.Handler) map[string][]web.Point {
	t.Helper()
	status, text := get(t, h, "/api/v1/charts")
	var answer struct{ Charts []web.Series }
	if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusOK {
		t.Fatalf("%d, %v: %.300s", status, err, text)
	}
	out := map[string][]web.Point{}
	for _, s := range answer.Charts {
		out[s.Name] = s.Points
	}
	return out
}

// look follows the page of what is in use until the function that it returns is called.
func look(t *testing.T, h http.Handler) (away func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var page sync.WaitGroup
	page.Go(func() {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/events?view=", nil))
	})
	return func() { cancel(); page.Wait() }
}

// The charts go back an hour and no further, in steps of ten seconds, with the most of the waits and leases and
// the number of the grants of each; a time in which nobody looked is a gap.
func TestChartsOfTheLastHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := memory.New()
		c := newClient(t, on, "api")
		lock(t, c, "from the start")
		h := web.Handler(newClient(t, on, "dashboard"))
		look := func(n int, every time.Duration) {
			for range n {
				time.Sleep(every)
				get(t, h, "/api/v1/clients")
			}
		}
		look(69*6, 10*time.Second)
		look(60, time.Second)
		time.Sleep(137 * time.Millisecond) // between two readings
		busy := time.Now()
		held := lock(t, c, "stock:42")
		waits, cancel := context.WithCancel(t.Context())
		var waiters sync.WaitGroup
		for range 2 {
			other := newClient(t, on, "worker")
			waiters.Go(func() { _, _ = other.Mutex("stock:42").Lock(waits) }) // it ends with waits
		}
		look(3, time.Second)
		cancel()
		waiters.Wait()
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		look(6, 10*time.Second)
		got := charts(t, h)
		for name, want := range map[string]struct{ sum, most float64 }{"waiters": {0, 2}, "leases": {0, 2}, "grants_seen": {1, 1}} {
			points := got[name]
			if len(points) != 361 || points[360].At.Sub(points[0].At) != time.Hour {
				t.Fatalf("%s has %d points, from %v to %v", name, len(points), points[0].At, points[len(points)-1].At)
			}
			var sum, most float64
			for _, p := range points {
				if sum, most = sum+p.Value, max(most, p.Value); p.Value == want.most && p.At.Sub(busy).Abs() > 20*time.Second {
					t.Errorf("%s is %v at %v, and it was busy at %v", name, p.Value, p.At, busy)
				}
			}
			if most != want.most || want.sum != 0 && sum != want.sum {
				t.Errorf("%s: %v at most and %v in all, want %v and %v", name, most, sum, want.most, want.sum)
			}
		}

		time.Sleep(10 * time.Minute)
		lock(t, c, "while nobody looked")
		time.Sleep(10 * time.Minute)
		_, page := get(t, h, "/")
		if n := strings.Count(page, "<polyline"); n != 6 || !strings.Contains(page, "Grants in 10 s <span>seen here, last 1h 00m") {
			t.Errorf("%d lines, want two a chart:\n%s", n, page)
		}
		if points := charts(t, h)["grants_seen"]; points[len(points)-1].Value != 0 {
			t.Error("what was granted while nobody looked is counted as if it was granted just now")
		}
	})
}

// A quorum does not show waiters, so there is no chart of them.
func TestChartsWithoutWaiters(t *testing.T) {
	c := newClient(t, partial{memory.New()}, "api")
	lock(t, c, "a")
	if got := charts(t, web.Handler(c)); len(got["waiters"]) != 0 || len(got["leases"]) != 1 {
		t.Errorf("%v, want leases alone", got)
	}
}

// Charts of another source are read only while somebody looks. If it hangs or fails, the page says so and is not late.
func TestChartsOfAnotherSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := memory.New()
		lock(t, newClient(t, on, "api"), "stock:42")
		type source func(context.Context) ([]web.Series, error)
		var calls atomic.Int32
		var answer atomic.Value
		answer.Store(source(func(ctx context.Context) ([]web.Series, error) {
			<-ctx.Done()
			return nil, errors.New("<b>it hangs</b>")
		}))
		h := web.Handler(newClient(t, on, "dashboard"), web.WithSeries(func(ctx context.Context) ([]web.Series, error) {
			calls.Add(1)
			return answer.Load().(source)(ctx)
		}))
		began := time.Now()
		page := func(want ...string) {
			t.Helper()
			status, text := get(t, h, "/")
			for _, want := range append(want, "stock:42", "seen here") {
				if status != http.StatusOK || !strings.Contains(text, want) {
					t.Fatalf("%d, without %q:\n%s", status, want, text)
				}
			}
		}
		page("no answer yet")
		if took := time.Since(began); took > time.Second {
			t.Errorf("the page took %v", took)
		}
		time.Sleep(10 * time.Second)
		page("could not be read", "&lt;b&gt;it hangs&lt;/b&gt;")
		time.Sleep(time.Minute)
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls, and nobody looked but once", n)
		}
		answer.Store(source(func(context.Context) ([]web.Series, error) { return nil, errors.New("down") }))
		if status, text := get(t, h, "/api/v1/charts"); status != http.StatusServiceUnavailable || !strings.Contains(text, "down") {
			t.Errorf("%d: %s", status, text)
		}
		time.Sleep(time.Minute)
		answer.Store(source(func(context.Context) ([]web.Series, error) {
			return []web.Series{
				{Name: "n", Title: "<i>Grants</i>", Source: "elsewhere", Points: []web.Point{{At: began, Value: 1.25}, {At: began.Add(time.Minute), Value: 0.5}}},
				{Name: "none", Title: "Nothing", Source: "elsewhere"},
			}, nil
		}))
		calls.Store(0)
		away := look(t, h)
		time.Sleep(time.Minute)
		away()
		if n := calls.Load(); n != 4 && n != 5 {
			t.Errorf("%d calls in a minute, want one in 15 s", n)
		}
		page("&lt;i&gt;Grants&lt;/i&gt;", "elsewhere, last 1m 00s", "max 1.25", "no data")
		if got := charts(t, h); len(got["n"]) != 2 || len(got["leases"]) == 0 {
			t.Errorf("%v", got)
		}
	})
}
