package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/web"
)

func newRecorder(t *testing.T, on engine.Engine) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(on, holdfast.WithName("shop"), holdfast.WithMeta(holdfast.Meta{Host: "node-17", PID: 42}), holdfast.WithHistory(holdfast.DefaultHistory))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// historyAnswer is what the tests look at of the JSON of a history.
type historyAnswer struct {
	Off            bool
	Total          int `json:"events_total"`
	Matched, Pages int
	Back           string `json:"read_back_to"`
	Events         []struct {
		Event, Resource, Name, Host, Cause string
		Held                               float64 `json:"held_ms"`
	}
}

func history(t *testing.T, h http.Handler, parameters string) historyAnswer {
	t.Helper()
	status, text := get(t, h, "/api/v1/history"+parameters)
	var a historyAnswer
	if err := json.Unmarshal([]byte(text), &a); err != nil || status != http.StatusOK {
		t.Fatalf("%d, %v: %s", status, err, text)
	}
	return a
}

// What was recorded is shown newest first, by event, text and resource, in pages, and on the page of its resource.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := memory.New()
		h := web.Handler(newClient(t, on, "dashboard"))
		if got := history(t, h, ""); got.Off || got.Total != 0 || len(got.Events) != 0 {
			t.Errorf("nothing was recorded, but %+v", got)
		}
		if _, text := get(t, h, "/history"); !strings.Contains(text, "Nothing was recorded") {
			t.Error("the page does not say that nothing was recorded")
		}
		c := newRecorder(t, on)
		for i := range 60 {
			if err := c.Mutex("stock:1").Do(t.Context(), func(context.Context) error { <-time.After(time.Duration(i) * time.Millisecond); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := lock(t, c, "moved").Detach(t.Context()); err != nil {
			t.Fatal(err)
		}
		l := lock(t, c, "<b>evil</b>\u202e")
		if err := c.Break(t.Context(), "<b>evil</b>\u202e", l.HolderID(), holdfast.BreakReason("<i>\x1b")); err != nil {
			t.Fatal(err)
		}
		<-l.Done()
		<-time.After(10 * time.Second)

		// A lease that was held while events were written has its grant, too.
		all := history(t, h, "?size=10&event=released")
		if all.Total < 64 || all.Matched != 60 || all.Pages != 6 || len(all.Events) != 10 || all.Back != "" {
			t.Fatalf("got %+v", all)
		}
		if first := all.Events[0]; first.Event != "released" || first.Resource != "stock:1" || first.Held != 59 || first.Name != "shop" || first.Host != "node-17" {
			t.Errorf("the newest is not first: %+v", first)
		}
		for parameters, want := range map[string]int{"?event=lost": 1, "?event=detached": 1, "?event=broke": 1, "?q=STOCK+node-17&event=released": 60, "?q=evil": 3, "?name=stock:1&event=released": 60, "?name=stock": 0, "?q=evil&event=released": 0} {
			if got := history(t, h, parameters); got.Matched != want || len(got.Events) != want {
				t.Errorf("%s: %d events, want %d", parameters, got.Matched, want)
			}
		}
		_, page := get(t, h, "/history")
		if strings.Contains(page, "<b>evil") || strings.Contains(page, "<i>") || strings.Contains(page, "\u202e") || !strings.Contains(page, `&lt;b&gt;evil&lt;/b&gt;\u202e`) || !strings.Contains(page, "break: &lt;i&gt;") {
			t.Errorf("texts of others are not escaped: %s", page)
		}
		if _, page = get(t, h, "/resource?name=stock:1"); strings.Count(page, "data-key=\"r ") != 50 || !strings.Contains(page, " more</a>") || !strings.Contains(page, "history?name=stock%3A1") {
			t.Errorf("the page of the resource does not show its 50 newest events: %s", page)
		}
		if _, text := get(t, h, "/api/v1/resource?name=stock:1"); strings.Count(text, `"event":"`) != 50 {
			t.Errorf("the JSON of the resource is %s", text)
		}
	})
}

// Of a long history the newest events are read, once for all pages.
func TestHistoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := &countedHistory{Engine: memory.New()}
		events := make([][]byte, 6000)
		for i := range events {
			events[i] = fmt.Appendf(nil, `{"event":"released","resource":"r%d","id":"w.%x"}`, i, 0x100000+i)
		}
		if err := on.AppendHistory(t.Context(), holdfast.DefaultPrefix, 100_000, events); err != nil {
			t.Fatal(err)
		}
		h := web.Handler(newClient(t, on, "dashboard"))
		for range 10 {
			got := history(t, h, "?page=2")
			if got.Total != 5000 || got.Pages != 50 || got.Events[0].Resource != "r5899" || got.Back == "" {
				t.Fatalf("got %d events of %d in %d pages, %+v first, back to %q", len(got.Events), got.Total, got.Pages, got.Events[0], got.Back)
			}
			get(t, h, "/resource?name=r5999")
		}
		if on.reads != 10 {
			t.Errorf("%d reads of 500 events", on.reads)
		}
	})
}

type countedHistory struct {
	*memory.Engine
	reads int
	fails bool
}

func (e *countedHistory) HistoryBefore(ctx context.Context, prefix, before string, limit int) ([]engine.HistoryRecord, error) {
	e.reads++
	if e.fails {
		return nil, engine.ErrDenied
	}
	return e.Engine.HistoryBefore(ctx, prefix, before, limit)
}

// A store without a history is said to be one, and one whose history cannot be read shows the rest.
func TestHistoryIsOff(t *testing.T) {
	h := web.Handler(newClient(t, struct{ engine.Engine }{memory.New()}, "dashboard"))
	if got := history(t, h, ""); !got.Off {
		t.Errorf("got %+v", got)
	}
	if status, text := get(t, h, "/history"); status != http.StatusOK || !strings.Contains(text, "This engine keeps no history") {
		t.Errorf("%d: %s", status, text)
	}
	h = web.Handler(newClient(t, &countedHistory{Engine: memory.New(), fails: true}, "dashboard"))
	if status, text := get(t, h, "/api/v1/history"); status != http.StatusServiceUnavailable || !strings.Contains(text, "error") {
		t.Errorf("%d: %s", status, text)
	}
	if status, text := get(t, h, "/resource?name=a"); status != http.StatusOK || !strings.Contains(text, "could not be read") {
		t.Errorf("%d: %s", status, text)
	}
	if status, text := get(t, h, "/api/v1/resource?name=a"); status != http.StatusOK || !strings.Contains(text, `"history_error":`) {
		t.Errorf("%d: %s", status, text)
	}
}
