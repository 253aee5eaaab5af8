package webtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/web"
)

// limit bounds the wait for what a page must show. It is long, since a test is not about time.
const limit = 30 * time.Second

// prefix is where the dashboard is mounted.
const prefix = "/admin/locks/"

// chromium is the browser of all tests, and axe the text of axe-core.
var (
	chromium context.Context
	axe      string
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	out, err := exec.Command("bash", "../../.ci/chromium").Output()
	if err != nil {
		fmt.Fprintln(os.Stderr, ".ci/chromium:", err)
		return 1
	}
	text, err := os.ReadFile(strings.TrimSpace(string(out)))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	axe = string(text)
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.DisableGPU)
	all, stop := chromedp.NewExecAllocator(context.Background(), opts...)
	defer stop()
	browser, quit := chromedp.NewContext(all)
	defer quit()
	if err := chromedp.Do(browser); err != nil {
		fmt.Fprintln(os.Stderr, "chromium:", err)
		return 1
	}
	chromium = browser
	return m.Run()
}

// site is a dashboard on a Redis of its own, below a prefix.
type site struct {
	t      *testing.T
	redis  *redistest.Server
	client *holdfast.Client // of the scene
	url    string           // of the dashboard
}

func newSite(t *testing.T, opts ...web.Option) *site {
	t.Helper()
	s := &site{t: t, redis: redistest.Start(t)}
	s.client = s.newClient("api", "web-1", 4711)
	watcher := s.newClient("dashboard", "admin", 1)
	mux := http.NewServeMux()
	mux.Handle(prefix, http.StripPrefix(strings.TrimSuffix(prefix, "/"), web.Handler(watcher, opts...)))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	s.url = server.URL + prefix
	return s
}

func (s *site) newClient(name, host string, pid int) *holdfast.Client {
	s.t.Helper()
	rdb := s.redis.Client()
	c, err := holdfast.New(goredis.New(rdb), holdfast.WithName(name), holdfast.WithMeta(holdfast.Meta{Host: host, PID: pid}))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() }) // the server may be down
	return c
}

// newRecorder returns a client whose leases are in the history.
func (s *site) newRecorder(name, host string, pid int) *holdfast.Client {
	s.t.Helper()
	c, err := holdfast.New(goredis.New(s.redis.Client()), holdfast.WithName(name), holdfast.WithMeta(holdfast.Meta{Host: host, PID: pid}), holdfast.WithHistory(0))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *site) lock(name string, opts ...holdfast.LockOption) *holdfast.Lease {
	s.t.Helper()
	l, err := s.client.Mutex(name, opts...).Lock(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

// wait lets other clients wait for a mutex until the test ends.
func (s *site) wait(name string, n int) {
	s.t.Helper()
	var waits sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(func() { cancel(); waits.Wait() })
	for i := range n {
		c := s.newClient("worker", fmt.Sprintf("node-%d", i+1), 100+i)
		waits.Go(func() {
			if l, err := c.Mutex(name, holdfast.WithReason("the next order")).Lock(ctx); err == nil {
				<-ctx.Done()
				_ = l.Release(ctx)
			}
		})
		redistest.Await(s.t, limit, "the wait", func() bool {
			snap, err := s.client.Snapshot(s.t.Context(), name)
			return err == nil && len(snap.Waiters) > i
		})
	}
}

// tab is a page of the browser.
type tab struct {
	t         *testing.T
	ctx       context.Context
	noScripts bool // its pages run none

	mu       sync.Mutex
	troubles []string // errors of scripts, what the policy refused, dialogs
}

func newTab(t *testing.T) *tab {
	t.Helper()
	b := &tab{t: t}
	ctx, cancel := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext(), chromedp.WithListener(b.listen))
	t.Cleanup(cancel)
	b.ctx = ctx
	if err := chromedp.Do(ctx); err != nil { // opens the tab; with a limit it would close at its end
		t.Fatal(err)
	}
	// Several tabs are used at a time, each as if it were the one in front.
	b.do(call(cdplog.Enable, cdp.Empty{}), call(emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.troubles) > 0 {
			t.Errorf("the browser reports %q", b.troubles)
		}
	})
	return b
}

func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.troubles = append(b.troubles, fmt.Sprint(e.ExceptionDetails))
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.EntryLevelError && e.Entry.Source != cdplog.EntrySourceNetwork {
			b.troubles = append(b.troubles, e.Entry.Text)
		}
	case *page.EventJavascriptDialogOpening:
		b.troubles = append(b.troubles, "a dialog: "+e.Message)
	}
}

// call makes an action of a command.
func call[P, R any](c cdp.Command[P, R], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, c, params)
		return err
	})
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("%v\nthe page shows:\n%s", err, b.peek())
	}
}

// peek returns the text of the page, for messages.
func (b *tab) peek() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText`)) // the message is about something else
	return text
}

// open opens a page and waits for its first frames: before them, Chromium drops keys and clicks. Without scripts no
// frame is reported.
func (b *tab) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
	if b.noScripts {
		return
	}
	eval[bool](b, `new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))`)
}

// eval evaluates an expression in the page, which may be a promise.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%.200s: %v\nthe page shows:\n%s", expression, err, b.peek())
	}
	return value
}

// await waits until an expression is true, also on the next page.
func (b *tab) await(expression string) {
	b.t.Helper()
	defer func() {
		if b.t.Failed() {
			b.t.Logf("the page shows:\n%.2000s", b.peek())
		}
	}()
	redistest.Await(b.t, limit, expression, func() bool {
		ctx, cancel := context.WithTimeout(b.ctx, limit)
		defer cancel()
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		return err == nil && ok // between two pages there is nothing to evaluate
	})
}

// shows waits until the page has a text, lacks until it has not.
func (b *tab) shows(text string) {
	b.t.Helper()
	b.await("document.body.innerText.includes(" + quoted(text) + ")")
}

func (b *tab) lacks(text string) {
	b.t.Helper()
	b.await("!document.body.innerText.includes(" + quoted(text) + ")")
}

func quoted(text string) string {
	out, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(out)
}

// look sets the width and the colors.
func (b *tab) look(width int64, scheme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, 800), call(emulation.SetEmulatedMedia,
		emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}))
}

// shot returns a picture of the page.
func (b *tab) shot() []byte {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, limit)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	return png
}
