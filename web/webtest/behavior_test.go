package webtest

import (
	"bytes"
	"context"
	"html/template"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/web"
)

func allow(*http.Request) error { return nil }

// click clicks what a selector finds, wherever the page has moved it meanwhile.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.await(`!!document.querySelector(` + quoted(selector) + `)`)
	eval[bool](b, `(document.querySelector(`+quoted(selector)+`).click(), true)`)
}

// write types into a field.
func (b *tab) write(selector, text string) {
	b.t.Helper()
	b.do(chromedp.SendKeys(chromedp.CSS(selector), text))
}

// A page whose stream has broken, and is refused afterwards, says since when, and goes on by itself.
func TestConnectionLost(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.lock("first")
	to, err := url.Parse(strings.TrimSuffix(s.url, prefix))
	if err != nil {
		t.Fatal(err)
	}
	through := httputil.NewSingleHostReverseProxy(to)
	var down atomic.Bool
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			http.Error(w, "the proxy has no backend", http.StatusBadGateway)
			return
		}
		through.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	t.Cleanup(proxy.CloseClientConnections)
	b := newTab(t)
	b.open(proxy.URL + prefix)
	s.lock("second")
	b.shows("second") // by the stream
	down.Store(true)
	proxy.CloseClientConnections()
	b.shows("Connection lost since ")
	s.lock("third")
	down.Store(false)
	b.shows("third")
	b.lacks("Connection lost since ")
}

// While it is paused, a page stays as it is; then it goes on.
func TestPause(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.lock("first")
	paused, other := newTab(t), newTab(t)
	paused.open(s.url)
	paused.shows("first")
	paused.click("#pause")
	paused.await(`document.getElementById("pause").getAttribute("aria-pressed") === "true"`)
	other.open(s.url)
	s.lock("second")
	other.shows("second")
	s.lock("third")
	other.shows("third")
	if text := paused.peek(); strings.Contains(text, "second") || strings.Contains(text, "third") {
		t.Errorf("the paused page shows\n%s", text)
	}
	paused.do(chromedp.KeyEvent("p"))
	paused.shows("third")
}

// The filter finds one of 10,000 resources as it is typed, and the address keeps it.
func TestFilterOfManyResources(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	lockMany(t, s.client, 10_000)
	b := newTab(t)
	b.open(s.url)
	b.shows("10,000 in use")
	b.shows("Page 1 of 100")
	b.await(`!document.getElementById("pause").hidden`)
	// The driver's own key would be typed as well, although the page takes it.
	if !eval[bool](b, `!document.body.dispatchEvent(new KeyboardEvent("keydown", {key: "/", bubbles: true, cancelable: true})) && document.activeElement.name === "q"`) {
		t.Error("the key / does not lead to the filter")
	}
	began := time.Now()
	b.write("[name=q]", "ORDER Resource-07")
	b.shows("1,000 of 10,000 match")
	t.Logf("the filter was on the page after %v", time.Since(began))
	if rows := eval[int](b, `document.querySelectorAll("tbody tr").length`); rows != 100 {
		t.Errorf("%d rows, want 100", rows)
	}
	b.click("[rel=next]")
	b.shows("Page 2 of 10")
	b.await(`document.querySelectorAll("tbody tr").length === 100 && document.querySelector("[name=q]").value === "ORDER Resource-07"`)
	b.open(s.url + "?q=resource-09999&state=held&kind=mutex")
	b.shows("1 of 10,000 match")
	b.click("th:nth-child(2) a")
	b.await(`document.querySelector("th:nth-child(2)").getAttribute("aria-sort") === "ascending"`)
	b.shows("1 of 10,000 match")
}

// A wrong ID breaks nothing, the right one ends the lease.
func TestBreakByHand(t *testing.T) {
	t.Parallel()
	s := newSite(t, web.WithBreak(allow))
	name := "stock 42/\r\n<i>é</i>" // a form would change the line ends
	l := s.lock(name, holdfast.WithReason("order 7"), holdfast.WithTTL(6*time.Second))
	b := newTab(t)
	b.open(s.url)
	b.click("td.name a")
	b.shows("Holder ID")
	b.click("a.act")
	b.shows("Type or paste the ID")
	b.write("#typed", l.HolderID()[1:])
	b.click("button.danger")
	b.shows("Nothing was broken")
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	b.do(chromedp.Clear(chromedp.CSS("#typed")))
	b.write("#typed", l.HolderID())
	b.click("button.danger")
	b.shows("Broken.")
	redistest.Await(t, limit, "the end of the lease", func() bool { return l.Err() != nil })
	b.shows("Nobody holds it")
	b.open(s.url + "break?name=other&id=" + l.HolderID())
	b.shows("Nobody with the ID")
}

// A page that is read-only has no way to break, and neither its own script nor a page of another origin
// can.
func TestBreakIsRefused(t *testing.T) {
	t.Parallel()
	readOnly, open := newSite(t), newSite(t, web.WithBreak(allow))
	b := newTab(t)
	for _, s := range []*site{readOnly, open} {
		l := s.lock("stock:42")
		form := `new URLSearchParams({name: "stock:42", id: ` + quoted(l.HolderID()) + `, typed: ` + quoted(l.HolderID()) + `})`
		if s == readOnly {
			b.open(s.url + "resource?name=stock:42")
			b.shows(l.HolderID())
			if eval[bool](b, `!!document.querySelector("a.act, form.break")`) {
				t.Error("the page has a way to break")
			}
			for _, to := range []string{"break", "api/v1/break"} {
				if status := eval[int](b, `fetch("`+to+`", {method: "POST", body: `+form+`}).then(r => r.status)`); status != http.StatusForbidden {
					t.Errorf("POST %s: %d", to, status)
				}
			}
		}
		var page bytes.Buffer
		err := template.Must(template.New("").Parse(`<!doctype html><title>elsewhere</title><form method="post" action="{{.URL}}break"><input name="name" value="stock:42">
<input name="id" value="{{.ID}}"><input name="typed" value="{{.ID}}"><button>win</button></form>`)).Execute(&page, map[string]string{"URL": s.url, "ID": l.HolderID()})
		if err != nil {
			t.Fatal(err)
		}
		elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page.Bytes()) })) // nobody reads it any more
		b.open(strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1))
		b.click("button")
		b.shows("nothing was broken")
		elsewhere.Close()
		if snap, err := s.client.Snapshot(t.Context(), "stock:42"); err != nil || len(snap.Holders) != 1 || snap.Holders[0].Breaking {
			t.Errorf("%+v, %v; want the lease untouched", snap, err)
		}
	}
}

// Names with markup and with 512 bytes of emoji are shown as they are.
func TestNamesAsTheyAre(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	names := []string{`<script>alert(1)</script>`, `"><img src=x onerror=alert(2)>`, `</td></table><h1>x`, strings.Repeat("🚀", 128), "a&amp;b 100% #?+", "仓库 42"}
	for _, name := range names {
		s.lock(name, holdfast.WithReason("<b>"+name[:min(40, len(name))/4*4]+"</b>"))
	}
	b := newTab(t)
	for _, path := range []string{"", "clients"} {
		b.open(s.url + path)
		b.shows("Pause")
		if path == "" {
			for _, name := range names {
				b.await(`[...document.querySelectorAll("td.name a")].some(a => a.textContent === ` + quoted(name) + `)`)
			}
		}
	}
	for _, name := range names {
		b.open(s.url)
		b.await(`document.readyState === "complete"`)
		eval[bool](b, `([...document.querySelectorAll("td.name a")].find(a => a.textContent === `+quoted(name)+`).click(), true)`)
		b.await(`location.pathname.endsWith("/resource") && document.querySelector("h1").textContent === ` + quoted(name))
		b.shows("api · pid 4711 on web-1")
		if eval[bool](b, `!!document.querySelector("main script, main img, main b, main h1 h1")`) {
			t.Errorf("%q has become markup", name)
		}
	}
}

// What is recorded comes to the page of the history by itself, is filtered, and leads to its resource, whose page has it too.
func TestHistory(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := newTab(t)
	b.open(s.url + "history")
	b.shows("Nothing was recorded")
	const evil = `<img src=x onerror=alert(3)>`
	records := s.newRecorder("shop", "web-2", 99)
	for _, name := range []string{"stock:42", evil} {
		if err := records.Mutex(name).Do(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	b.await(`document.querySelectorAll("td.name a").length >= 2`)
	b.open(s.url + "history?q=onerror")
	b.await(`document.querySelectorAll("td.name a").length >= 1`)
	if eval[bool](b, `!!document.querySelector("main img") || [...document.querySelectorAll("td.name a")].some(a => a.textContent !== `+quoted(evil)+`)`) {
		t.Error("the name has become markup, or is not filtered")
	}
	eval[bool](b, `(document.querySelector("td.name a").click(), true)`)
	b.await(`location.pathname.endsWith("/resource") && document.querySelector("h1").textContent === ` + quoted(evil))
	b.shows("Recorded")
	b.shows("released")
}

// While the store is down the page says so and keeps what it had; it goes on when the store is back.
func TestStoreDownAndBack(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.lock("stock:42")
	b := newTab(t)
	b.open(s.url)
	b.shows("stock:42")
	s.redis.Kill()
	b.shows("The store does not answer")
	b.shows("stock:42")
	others := []string{"resource?name=stock:42", "clients", "jobs", "history"}
	for _, path := range others {
		b.open(s.url + path)
		b.shows("The store does not answer")
	}
	s.redis.Restart()
	for _, path := range others {
		b.open(s.url + path)
		b.lacks("The store does not answer")
	}
	b.open(s.url)
	s.lock("stock:43")
	b.shows("stock:43")
}

// Without a script every page is there, and loads itself again.
func TestWithoutScript(t *testing.T) {
	t.Parallel()
	s := newSite(t, web.WithBreak(allow))
	l := s.lock("stock:42")
	b := newTab(t)
	b.do(call(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	b.noScripts = true
	b.open(s.url)
	b.shows("stock:42")
	s.lock("stock:43")
	b.shows("stock:43")
	for path, text := range map[string]string{
		"clients": "api", "jobs": "No election", "history": "Nothing was recorded", "store": "Round trip", "resource?name=stock:42": l.HolderID(),
	} {
		b.open(s.url + path)
		b.shows(text)
		b.await(`document.getElementById("pause").hidden && !!document.querySelector("noscript meta[http-equiv=refresh]")`)
	}
	b.open(s.url)
	b.write("[name=q]", "42")
	b.click(".filter button")
	b.shows("1 of 2 match")
	b.click("td.name a")
	b.shows(l.HolderID())
	b.click("a.act")
	b.write("#typed", l.HolderID())
	b.click("button.danger")
	b.shows("Broken.")
}
