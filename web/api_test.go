package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/web"
)

// fetch returns the JSON at an address of the API.
func fetch(t *testing.T, h http.Handler, target string) map[string]any {
	t.Helper()
	status, text := get(t, h, "/api/v1/"+target)
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil || status != http.StatusOK || out["version"] != 1.0 {
		t.Fatalf("%s: %d, %v\n%s", target, status, err, text)
	}
	return out
}

// at returns a part of JSON: names of fields and numbers of elements, with dots between them.
func at(t *testing.T, v any, path string) any {
	t.Helper()
	for part := range strings.SplitSeq(path, ".") {
		switch of := v.(type) {
		case map[string]any:
			v = of[part]
		case []any:
			var i int
			if _, err := fmt.Sscan(part, &i); err != nil || i >= len(of) {
				t.Fatalf("%s: there is no %s in %v", path, part, of)
			}
			v = of[i]
		default:
			t.Fatalf("%s: there is no %s in %v", path, part, v)
		}
	}
	return v
}

func TestAPI(t *testing.T) {
	s := redistest.Start(t)
	ctx := t.Context()
	c := newClient(t, goredis.New(s.Client()), "api")
	other := newClient(t, goredis.New(s.Client()), "worker")
	l := lock(t, c, "stock:42", holdfast.WithReason("order 7"))
	lock(t, c, "stock:43")
	waits, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = other.Mutex("stock:42").Lock(waits) // it ends with waits
	}()
	defer func() { cancel(); <-ended }()
	redistest.Await(t, limit, "the wait", func() bool {
		snap, err := c.Snapshot(ctx, "stock:42")
		return err == nil && len(snap.Waiters) == 1
	})
	if _, err := c.Election("boss").Campaign(ctx, "10.0.0.7"); err != nil {
		t.Fatal(err)
	}
	if ran, err := c.Job("push", holdfast.Every(time.Hour)).Run(ctx, func(context.Context) error { return nil }); !ran || err != nil {
		t.Fatal(ran, err)
	}
	h := web.Handler(newClient(t, goredis.New(s.Client()), "dashboard"), web.WithExamination(func(context.Context) ([]web.Finding, error) {
		return []web.Finding{{Check: "reach", Node: "a", Status: "OK", Found: "fine"}}, nil
	}))
	for target, want := range map[string]map[string]any{
		"resources": {"matched": 3.0, "totals.leases": 3.0, "totals.waiters": 1.0, "totals.states.contended": 1.0, "totals.states.held": 2.0,
			"resources.0.resource": "stock:42", "resources.0.state": "contended", "resources.0.holders.0.id": l.HolderID(), "resources.0.holders.0.reason": "order 7",
			"resources.0.waiters.0.name": "worker", "resources.1.resource": "boss"},
		"resources?q=host-1+STOCK&sort=name&size=1&page=2": {"matched": 2.0, "pages": 2.0, "page": 2.0, "resources.0.resource": "stock:43"},
		"resources?kind=election":                          {"matched": 1.0, "resources.0.resource": "boss"},
		"resources?state=held&sort=waiters":                {"matched": 2.0},
		"resource?name=stock:42":                           {"resource": "stock:42", "holders.0.token": float64(l.Token()), "state": "contended"},
		"resource?name=none":                               {"resource": "none", "state": "free"},
		"clients?sort=name":                                {"matched": 2.0, "clients.0.name": "api", "clients.0.leases.0.resource": "stock:42", "clients.1.waits.0.resource": "stock:42"},
		"clients?q=worker":                                 {"matched": 1.0, "clients_total": 2.0},
		"jobs":                                             {"elections.0.name": "boss", "elections.0.leader.value": "10.0.0.7", "jobs.0.name": "push", "jobs.0.state": "done", "jobs.0.process": "api · pid 42 on host-1"},
		"store":                                            {"findings.0.check": "reach", "totals.resources": 3.0},
	} {
		out := fetch(t, h, target)
		for path, value := range want {
			if got := at(t, out, path); got != value {
				t.Errorf("%s: %s is %v, want %v", target, path, got, value)
			}
		}
	}
	for target, want := range map[string]int{"resource": http.StatusBadRequest, "resource?name=%ff": http.StatusBadRequest, "nothing": http.StatusNotFound} {
		if status, text := get(t, h, "/api/v1/"+target); status != want || !strings.Contains(text, `"error":`) {
			t.Errorf("%s: %d, want %d\n%s", target, status, want, text)
		}
	}
}

// partial is an engine that hides waiters, as a quorum does, and of which marks cannot be read.
type partial struct{ engine.Engine }

func (p partial) List(ctx context.Context, prefix, pattern string) iter.Seq2[engine.Snapshot, error] {
	return func(yield func(engine.Snapshot, error) bool) {
		for s, err := range p.Engine.List(ctx, prefix, pattern) {
			if s.NoWaiters = true; !yield(s, err) {
				return
			}
		}
	}
}

func (p partial) ListMarks(context.Context, string, string) iter.Seq2[engine.Snapshot, error] {
	return func(yield func(engine.Snapshot, error) bool) {
		yield(engine.Snapshot{}, errors.New("no marks today"))
	}
}

// What a page shows as not read is no data in the API, neither old nor zero.
func TestAPIOfWhatIsNotRead(t *testing.T) {
	c := newClient(t, partial{memory.New()}, "api")
	if _, err := c.Election("boss").Campaign(t.Context(), "10.0.0.7"); err != nil {
		t.Fatal(err)
	}
	h := web.Handler(c, web.WithExamination(func(context.Context) ([]web.Finding, error) { return nil, errors.New("it took too long") }))
	for page, want := range map[string]string{"jobs": "no marks today", "store": "it took too long"} {
		if status, text := get(t, h, "/api/v1/"+page); status != http.StatusServiceUnavailable || !strings.Contains(text, want) {
			t.Errorf("the JSON of %s: %d, %s", page, status, text)
		}
		if status, text := get(t, h, "/"+page); status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("the page of %s: %d, %s", page, status, text)
		}
	}
	// An engine that hides waiters, and lists no marks.
	hides := struct{ engine.Engine }{partial{memory.New()}}
	c = newClient(t, hides, "api")
	if _, err := c.Election("boss").Campaign(t.Context(), "10.0.0.7"); err != nil {
		t.Fatal(err)
	}
	if got := at(t, fetch(t, web.Handler(c), "jobs"), "elections.0.candidates"); got != nil {
		t.Errorf("%v candidates, want null", got)
	}
}

// docs/DASHBOARD.md names every field of the API.
func TestDashboardPage(t *testing.T) {
	page, err := os.ReadFile("../docs/DASHBOARD.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	field := regexp.MustCompile("json:\"(\\w+)")
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range field.FindAllStringSubmatch(string(text), -1) {
			found++
			if !strings.Contains(string(page), "`"+m[1]+"`") {
				t.Errorf("docs/DASHBOARD.md does not name %q of %s", m[1], file)
			}
		}
	}
	if found < 40 {
		t.Errorf("found %d fields in the source, want at least 40", found)
	}
}
