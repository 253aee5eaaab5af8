package web_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/web"
)

const limit = 30 * time.Second

func newClient(t testing.TB, on engine.Engine, name string) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(on, holdfast.WithName(name), holdfast.WithMeta(holdfast.Meta{Host: "host-1", PID: 42}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() }) // the store may be down
	return c
}

func lock(t testing.TB, c *holdfast.Client, name string, opts ...holdfast.LockOption) *holdfast.Lease {
	t.Helper()
	l, err := c.Mutex(name, opts...).Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// do sends a request to a handler and returns the answer with its text.
func do(t testing.TB, h http.Handler, r *http.Request) (*http.Response, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result(), w.Body.String()
}

func get(t testing.TB, h http.Handler, target string) (int, string) {
	t.Helper()
	resp, text := do(t, h, httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))
	return resp.StatusCode, text
}

func post(t testing.TB, h http.Handler, target string, form url.Values, header ...string) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return do(t, h, r)
}

func breakForm(name string, l *holdfast.Lease, typed string) url.Values {
	return url.Values{"name": {name}, "id": {l.HolderID()}, "typed": {typed}}
}

func allow(*http.Request) error { return nil }

// paths are those of all pages.
func paths() []string {
	return []string{"/", "/clients", "/jobs", "/history", "/store", "/resource?name=a", "/break?name=a&id=b", "/nothing"}
}

// No page has a script or a style in it, nor a link from the root, and each forbids both.
func TestPagesObeyTheirPolicy(t *testing.T) {
	c := newClient(t, memory.New(), "api")
	lock(t, c, "a")
	h := web.Handler(c, web.WithBreak(allow))
	inline := regexp.MustCompile(`(?i)<style|<script(?:[^>]*)>[^<]|\son\w+=|\sstyle=|(?:href|src|action)="/|javascript:`)
	for _, path := range paths() {
		resp, text := do(t, h, httptest.NewRequest(http.MethodGet, path, nil))
		if found := inline.FindString(text); found != "" {
			t.Errorf("%s has %q", path, found)
		}
		if p := resp.Header.Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") || strings.Contains(p, "unsafe") {
			t.Errorf("%s has the policy %q", path, p)
		}
	}
}

// Texts of other processes stay texts, and a line end in a name does not end an event.
func TestNamesAreNeverMarkup(t *testing.T) {
	on := memory.New()
	bad := `<script>alert(1)</script>"'><img src=x onerror=alert(2)>` + "\r\rdata: <b>\u202e"
	c, err := holdfast.New(on, holdfast.WithName(bad), holdfast.WithMeta(holdfast.Meta{Host: bad, PID: 1}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l := lock(t, c, bad, holdfast.WithReason(bad))
	h := web.Handler(c, web.WithBreak(allow), web.WithTitle("<script>"))
	at := url.Values{"name": {bad}, "id": {l.HolderID()}, "q": {bad}}.Encode()
	for _, path := range []string{"/", "/clients", "/jobs", "/store", "/resource", "/break"} {
		_, text := get(t, h, path+"?"+at)
		if strings.Contains(text, "<script>") || strings.Contains(text, "<img") || strings.Contains(text, "\u202e") && path != "/" && path != "/clients" {
			t.Errorf("%s has markup of a name:\n%s", path, text)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	w := &firstEvent{ResponseRecorder: httptest.NewRecorder(), end: cancel}
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/events?view=resource&"+at, nil))
	for line := range strings.Lines(strings.ReplaceAll(w.Body.String(), "\r", "\n")) {
		if line != "\n" && !strings.HasPrefix(line, "data: ") && !strings.HasPrefix(line, "retry: ") {
			t.Errorf("an event has the line %q", line)
		}
	}
	if !strings.Contains(w.Body.String(), l.HolderID()) {
		t.Errorf("the event lacks the holder:\n%s", w.Body)
	}
}

// firstEvent ends a request after its first event.
type firstEvent struct {
	*httptest.ResponseRecorder
	end context.CancelFunc
}

func (w *firstEvent) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte("data:")) {
		w.end()
	}
	return w.ResponseRecorder.Write(p)
}

// Under any prefix a page leads to the others.
func TestPrefix(t *testing.T) {
	c := newClient(t, memory.New(), "api")
	h := web.Handler(c)
	mux := http.NewServeMux()
	mux.Handle("/", h)
	mux.Handle("/admin/locks/", http.StripPrefix("/admin/locks", h))
	mux.Handle("/x/y/", http.StripPrefix("/x/y/", h))
	mux.Handle("/bare", http.StripPrefix("/bare", h))
	mux.Handle("/bare/", http.StripPrefix("/bare", h))
	server := httptest.NewServer(mux)
	defer server.Close()
	link := regexp.MustCompile(`(?:href|src)="([^"#]+)"`)
	for _, prefix := range []string{"/", "/admin/locks", "/admin/locks/", "/x/y/", "/bare?q=a", "/bare/"} {
		resp, err := http.Get(server.URL + prefix)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d, %v", prefix, resp.StatusCode, err)
		}
		seen := 0
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			to, err := resp.Request.URL.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
			if err != nil {
				t.Fatal(err)
			}
			if to.Scheme == "data" {
				continue
			}
			seen++
			if other, err := http.Get(to.String()); err != nil || other.StatusCode != http.StatusOK {
				t.Errorf("%s leads to %s: %v, %v", prefix, to, other, err)
			} else {
				other.Body.Close()
			}
		}
		if seen < 6 {
			t.Errorf("%s has %d links:\n%s", prefix, seen, text)
		}
	}
}

// Without WithBreak nothing is broken, whatever is sent.
func TestReadOnly(t *testing.T) {
	c := newClient(t, memory.New(), "api")
	l := lock(t, c, "a")
	h := web.Handler(c)
	for _, target := range []string{"/break", "/api/v1/break", "break"} {
		if target == "break" {
			target = "/" + target + "?typed=" + l.HolderID()
		}
		if resp, text := post(t, h, target, breakForm("a", l, l.HolderID()), "Sec-Fetch-Site", "same-origin"); resp.StatusCode != http.StatusForbidden || !strings.Contains(text, "read-only") {
			t.Errorf("%s: %d, %s", target, resp.StatusCode, text)
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, "BREAK"} {
		for _, path := range paths() {
			resp, _ := do(t, h, httptest.NewRequest(method, path, nil))
			if want := http.StatusMethodNotAllowed; resp.StatusCode != want && !strings.HasPrefix(path, "/break") {
				t.Errorf("%s %s: %d, want %d", method, path, resp.StatusCode, want)
			}
		}
	}
	if _, text := get(t, h, "/resource?name=a"); !strings.Contains(text, l.HolderID()) || strings.Contains(text, "break?") {
		t.Errorf("the page of the resource:\n%s", text)
	}
	if err := l.Err(); err != nil {
		t.Error(err)
	}
}

func TestBreak(t *testing.T) {
	on := memory.New()
	c := newClient(t, on, "api")
	lock(t, c, "other")
	var log bytes.Buffer
	h := web.Handler(newClient(t, on, "dashboard"), web.WithLogger(slog.New(slog.NewTextHandler(&log, nil))),
		web.WithBreak(func(r *http.Request) error {
			if user, _, _ := r.BasicAuth(); user != "ann" {
				return errors.New("only ann may break")
			}
			return nil
		}))
	ann := httptest.NewRequest(http.MethodGet, "/", nil)
	ann.SetBasicAuth("ann", "x")
	own := []string{"Sec-Fetch-Site", "same-origin", "Authorization", ann.Header.Get("Authorization")}
	l := lock(t, c, "a b/ü", holdfast.WithReason("work"), holdfast.WithTTL(6*time.Second))
	right := breakForm("a b/ü", l, l.HolderID())
	for name, try := range map[string]struct {
		form   url.Values
		header []string
		status int
	}{
		"another origin":         {right, append([]string{"Sec-Fetch-Site", "cross-site"}, own[2:]...), http.StatusForbidden},
		"another site":           {right, append([]string{"Sec-Fetch-Site", "same-site"}, own[2:]...), http.StatusForbidden},
		"an old browser, abroad": {right, append([]string{"Origin", "http://evil.example"}, own[2:]...), http.StatusForbidden},
		"not ann":                {right, own[:2], http.StatusForbidden},
		"typed wrong":            {breakForm("a b/ü", l, l.HolderID()[:20]), own, http.StatusUnprocessableEntity},
		"not typed":              {breakForm("a b/ü", l, ""), own, http.StatusUnprocessableEntity},
		"of another resource":    {breakForm("other", l, l.HolderID()), own, http.StatusConflict},
		"the mark":               {url.Values{"name": {"a b/ü"}, "id": {"mark"}, "typed": {"mark"}}, own, http.StatusConflict},
		"no ID":                  {url.Values{"name": {"a b/ü"}}, own, http.StatusBadRequest},
		"a name that is none":    {url.Values{"name": {"\xff"}, "id": {"x"}, "typed": {"x"}}, own, http.StatusBadRequest},
		"too long":               {url.Values{"name": {strings.Repeat("a", 20<<10)}, "id": {"x"}, "typed": {"x"}}, own, http.StatusBadRequest},
	} {
		for _, target := range []string{"/break", "/api/v1/break"} {
			if resp, text := post(t, h, target, try.form, try.header...); resp.StatusCode != try.status {
				t.Errorf("%s, %s: %d, want %d\n%s", name, target, resp.StatusCode, try.status, text)
			}
		}
	}
	if s, err := c.Snapshot(t.Context(), "a b/ü"); err != nil || len(s.Holders) != 1 || s.Holders[0].Breaking || l.Err() != nil {
		t.Fatalf("%+v, %v, %v; want the lease untouched", s, err, l.Err())
	}
	resp, text := post(t, h, "/break", right, own...)
	if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != "./resource?broken=&name=a+b%2F%C3%BC" {
		t.Fatalf("%d to %q: %s", resp.StatusCode, resp.Header.Get("Location"), text)
	}
	redistest.Await(t, limit, "the end of the lease", func() bool { return l.Err() != nil })
	if lost, ok := errors.AsType[*holdfast.LostError](l.Err()); !ok || lost.Cause != holdfast.LostBroken {
		t.Errorf("%v, want a broken lease", l.Err())
	}
	said := log.String()
	for _, want := range []string{"a lease was broken from the dashboard", `resource="a b/ü"`, fmt.Sprintf("token=%d", l.Token()), "user=ann", "a break from the dashboard was refused"} {
		if !strings.Contains(said, want) {
			t.Errorf("the log lacks %q:\n%s", want, said)
		}
	}
	if strings.Contains(said, l.HolderID()) {
		t.Errorf("the log has the holder ID:\n%s", said)
	}
	if status, text := get(t, h, "/api/v1/break"); status != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d, %s", status, text)
	}
}

// A waiter that is silent for 3 s is shown in grey and does not count, until it is dropped.
func TestDeadWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := memory.New()
		lock(t, newClient(t, on, "api"), "stock:42")
		who := engine.Client{ID: "dead", Name: "<b>worker", Host: "node-3", PID: 7}
		_, err := on.Acquire(t.Context(), engine.Request{
			Resource: engine.Resource{Prefix: holdfast.DefaultPrefix, Name: "stock:42"}, ID: "dead.1", Client: &who,
			Kind: engine.KindMutex, Capacity: 1, Weight: 1, TTL: time.Minute, Queue: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		h := web.Handler(newClient(t, on, "dashboard"))
		if _, text := get(t, h, "/resource?name=stock:42"); strings.Contains(text, "dead, silent") || !strings.Contains(text, "node-3") {
			t.Errorf("alive: %s", text)
		}
		time.Sleep(4 * time.Second)
		_, text := get(t, h, "/resource?name=stock:42")
		if !strings.Contains(text, `class="dead"`) || !strings.Contains(text, "dead, silent for 4s") || !strings.Contains(text, "&lt;b&gt;worker") || !strings.Contains(text, "<dt>Waiters</dt><dd>0</dd>") {
			t.Errorf("dead: %s", text)
		}
		one := fetch(t, h, "resource?name=stock:42")
		if got := at(t, one, "dead.0.silent_ms"); got != 4000.0 || at(t, one, "dead.0.id") != "dead.1" || len(at(t, one, "waiters").([]any)) != 0 {
			t.Errorf("the JSON is %v", one)
		}
		if all := fetch(t, h, "resources"); at(t, all, "totals.waiters") != 0.0 || at(t, all, "resources.0.state") != "held" {
			t.Errorf("the list is %v", all)
		}
	})
}

// outage is an engine whose store is unreachable while down is true.
type outage struct {
	engine.Engine
	down bool
}

func (o *outage) err() error {
	if o.down {
		return fmt.Errorf("%w: connection refused", engine.ErrUnavailable)
	}
	return nil
}

func (o *outage) Now(ctx context.Context) (time.Time, error) {
	if err := o.err(); err != nil {
		return time.Time{}, err
	}
	return o.Engine.Now(ctx)
}

func (o *outage) Snapshot(ctx context.Context, res engine.Resource) (engine.Snapshot, error) {
	if err := o.err(); err != nil {
		return engine.Snapshot{}, err
	}
	return o.Engine.Snapshot(ctx, res)
}

func (o *outage) List(ctx context.Context, prefix, pattern string) iter.Seq2[engine.Snapshot, error] {
	if err := o.err(); err != nil {
		return func(yield func(engine.Snapshot, error) bool) { yield(engine.Snapshot{}, err) }
	}
	return o.Engine.List(ctx, prefix, pattern)
}

// While the store is down a page says so and shows what it had, and the API fails; both go on by
// themselves.
func TestStoreDownAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &outage{Engine: memory.New()}
		lock(t, newClient(t, store, "api"), "stock:42")
		h := web.Handler(newClient(t, store, "dashboard"))
		page := func(down bool) {
			t.Helper()
			time.Sleep(time.Minute) // what was read before is too old
			if status, text := get(t, h, "/"); status != http.StatusOK || strings.Contains(text, "The store does not answer") != down || !strings.Contains(text, "stock:42") {
				t.Fatalf("the store is down: %v; %d\n%s", down, status, text)
			}
		}
		page(false)
		store.down = true
		page(true)
		for _, path := range []string{"/api/v1/resources", "/resource?name=never-read"} {
			if status, text := get(t, h, path); status != http.StatusServiceUnavailable || !strings.Contains(text, "refused") {
				t.Errorf("%s: %d\n%s", path, status, text)
			}
		}
		store.down = false
		page(false)
	})
}

// A server that limits the time of a request and an answer does not end the stream of events.
func TestStreamOutlivesTimeouts(t *testing.T) {
	c := newClient(t, memory.New(), "api")
	server := httptest.NewUnstartedServer(web.Handler(c))
	server.Config.ReadTimeout, server.Config.WriteTimeout = 200*time.Millisecond, 200*time.Millisecond
	server.Start()
	defer server.Close()
	resp, err := http.Get(server.URL + "/events?view=")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("%s, %s", resp.Status, kind)
	}
	var text []byte
	for began := time.Now(); bytes.Count(text, []byte("\n\n")) < 4; { // three events, at least two seconds
		part := make([]byte, 16<<10)
		n, err := resp.Body.Read(part)
		text = append(text, part[:n]...)
		if err != nil {
			t.Fatalf("after %v: %v\n%s", time.Since(began), err, text)
		}
	}
}
