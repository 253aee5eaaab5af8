package webtest

import (
	"context"
	"flag"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/web"
)

// update makes TestPages write the pictures of docs/DASHBOARD.md.
var update = flag.Bool("update", false, "write the pictures of docs/DASHBOARD.md")

// shown are the pictures of docs/DASHBOARD.md.
func shown() map[string]string {
	return map[string]string{"now-1280-light": "now.png", "resource-1280-dark": "resource-dark.png"}
}

// findings are those of an examination.
func findings(context.Context) ([]web.Finding, error) {
	return []web.Finding{
		{Check: "reach", Node: "10.0.0.1:6379", Status: "OK", Found: "master; 20 pings: median 0.2ms, max 0.4ms"},
		{Check: "persistence", Node: "10.0.0.1:6379", Status: "WARN", Found: "none: a restart forgets every lease", Remedy: "set appendonly yes"},
		{Check: "eviction", Node: "10.0.0.1:6379", Status: "FAIL", Found: "maxmemory-policy allkeys-lru may evict leases while they are held", Remedy: "set maxmemory-policy noeviction"},
		{Check: "clock", Node: "10.0.0.1:6379", Status: "UNKNOWN", Found: "the server does not show it"},
	}, nil
}

// measured are charts of a Prometheus, with a pause in which it was down.
func measured(context.Context) ([]web.Series, error) {
	waits := web.Series{Name: "acquires_pending", Title: "Waiting", Source: "Prometheus"}
	grants := web.Series{Name: "grants_per_second", Title: "Grants per second", Source: "Prometheus"}
	for i := range 240 {
		if i > 150 && i < 165 {
			continue
		}
		at := time.Now().Add(time.Duration(i-240) * 15 * time.Second)
		busy := math.Exp(-math.Pow(float64(i-90)/12, 2))
		waits.Points = append(waits.Points, web.Point{At: at, Value: math.Round(2 + 30*busy + 2*math.Sin(float64(i)))})
		grants.Points = append(grants.Points, web.Point{At: at, Value: 41.5 - 30*busy + 3*math.Sin(float64(i)/7)})
	}
	return []web.Series{waits, {Name: "lease_count", Title: "Held", Source: "Prometheus"}, grants}, nil
}

// scene holds and waits for something of each kind. It returns a lease that others wait for, and one of a long name.
func (s *site) scene() (wanted, long *holdfast.Lease) {
	s.t.Helper()
	ctx := s.t.Context()
	check := func(_ *holdfast.Lease, err error) {
		s.t.Helper()
		if err != nil {
			s.t.Fatal(err)
		}
	}
	wanted = s.lock("stock:42", holdfast.WithReason("deduct order 9137"))
	s.wait("stock:42", 3)
	batch := s.newClient("billing", "batch-2", 88)
	check(batch.Mutex("report:2026-11-23", holdfast.WithReason("nightly report")).Lock(ctx))
	check(batch.RWMutex("catalog", holdfast.WithReason("rebuild")).RLock(ctx))
	for range 2 {
		check(batch.Semaphore("gpu", 4).Acquire(ctx, 1))
	}
	check(batch.Election("dispatcher").Campaign(ctx, "10.0.0.7:8080"))
	if _, err := batch.Job("push", holdfast.Every(time.Minute)).Run(ctx, func(context.Context) error { return nil }); err != nil {
		s.t.Fatal(err)
	}
	records := s.newRecorder("shop", "web-2", 99)
	for _, name := range []string{"stock:42 of yesterday", "<b>bold</b> & \"quoted\"", strings.Repeat("🚀", 120)} {
		if err := records.Mutex(name+" ").Do(ctx, func(context.Context) error { return nil }); err != nil {
			s.t.Fatal(err)
		}
	}
	for i := range 8 {
		s.lock(fmt.Sprintf("order:%d", 9100+i), holdfast.WithReason("payment"))
	}
	long = s.lock(strings.Repeat("🚀", 128), holdfast.WithReason(strings.Repeat("🔒", 60))) // 512 bytes
	s.lock("<b>bold</b> & \"quoted\"", holdfast.WithReason("<img src=x onerror=alert(1)>"))
	return wanted, long
}

// Every page fits its width, has no script error and nothing that the policy refuses, and axe-core
// finds no violation, in both color schemes.
func TestPages(t *testing.T) {
	t.Parallel()
	s := newSite(t, web.WithBreak(func(*http.Request) error { return nil }), web.WithTitle("redis 10.0.0.1:6379, prefix \"shop\""), web.WithExamination(findings), web.WithSeries(measured))
	lease, long := s.scene()
	address, emoji := "?name=stock%3A42", "?name="+url.QueryEscape(long.Resource())
	pages := []struct{ name, path string }{
		{"resource", "resource" + address}, {"clients", "clients"}, {"jobs", "jobs"}, {"history", "history"}, {"store", "store"},
		{"break", "break" + address + "&id=" + lease.HolderID()}, {"error", "nothing"}, {"free", "resource?name=free"},
		{"long-resource", "resource" + emoji}, {"long-break", "break" + emoji + "&id=" + long.HolderID()},
		{"now", ""}, // the last, so that its charts have lines
	}
	kept := 0
	b := newTab(t)
	for _, p := range pages {
		for _, width := range []int64{1280, 380} {
			var backgrounds []string
			for _, scheme := range []string{"light", "dark"} {
				title := fmt.Sprintf("%s-%d-%s", p.name, width, scheme)
				b.look(width, scheme)
				b.open(s.url + p.path)
				b.await(`document.readyState === "complete" && (!document.body.dataset.stream || !document.getElementById("pause").hidden)`)
				if wide := eval[int](b, `document.documentElement.scrollWidth`); wide > int(width) {
					t.Errorf("%s is %d wide", title, wide)
				}
				for _, violation := range b.axe() {
					t.Errorf("%s: axe-core: %s", title, violation)
				}
				backgrounds = append(backgrounds, eval[string](b, `getComputedStyle(document.body).backgroundColor`))
				png := b.shot()
				if err := os.WriteFile(filepath.Join(t.ArtifactDir(), title+".png"), png, 0o644); err != nil {
					t.Fatal(err)
				}
				if file := shown()[title]; file != "" {
					kept++
					if *update {
						if err := os.WriteFile(filepath.Join("../../docs/dashboard", file), png, 0o644); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			if backgrounds[0] == backgrounds[1] {
				t.Errorf("%s: both schemes have the background %s", p.name, backgrounds[0])
			}
		}
	}
	if kept != len(shown()) {
		t.Errorf("%d of the pictures %v were taken", kept, shown())
	}
}

// axe returns what axe-core finds wrong with the page.
func (b *tab) axe() []string {
	b.t.Helper()
	if rules := eval[int](b, axe+";axe.getRules().length"); rules < 50 {
		b.t.Fatalf("axe-core has %d rules", rules)
	}
	return eval[[]string](b, `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v => v.id + ": " + v.help + ": " + v.nodes.map(n => n.html).join("; ")))`)
}
