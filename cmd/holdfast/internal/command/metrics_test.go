package command

import (
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/engine/quorum"
)

// readMetrics reads metrics as Prometheus does.
func readMetrics(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return families
}

// documented returns the metrics in docs/METRICS.md that begin with a prefix.
func documented(t *testing.T, prefix string) []string {
	t.Helper()
	doc, err := os.ReadFile("../../../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| `("+prefix+"\\w+)` \\|").FindAllStringSubmatch(string(doc), -1) {
		names = append(names, row[1])
	}
	slices.Sort(names)
	return names
}

func scrape(t *testing.T, m *storeMetrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain; version=0.0.4") {
		t.Fatalf("%d, %v", w.Code, w.Header())
	}
	return w.Body.String()
}

// The metrics of a store are those of the documentation, with what is in the store.
func TestStoreMetrics(t *testing.T) {
	on := memory.New()
	c := client(t, on, "shop")
	for _, name := range []string{"a", "b"} {
		if _, err := c.Mutex(name).Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Semaphore("pool", 3).Acquire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	waiting := client(t, on, "waiter")
	go func() { _, _ = waiting.Mutex("a").Lock(t.Context()) }()
	awaitWaiter(t, c, "a")
	text := scrape(t, &storeMetrics{s: &session{Client: c, at: "memory"}})
	families := readMetrics(t, text)
	if got := slices.Sorted(maps.Keys(families)); !slices.Equal(got, documented(t, "holdfast_store_")) {
		t.Errorf("%q are scraped, %q documented", got, documented(t, "holdfast_store_"))
	}
	for _, want := range []string{
		"holdfast_store_up 1",
		`holdfast_store_resources{kind="mutex",state="held"} 1`,
		`holdfast_store_resources{kind="mutex",state="contended"} 1`,
		`holdfast_store_resources{kind="mutex",state="waiting"} 0`,
		`holdfast_store_leases{kind="mutex"} 2`,
		`holdfast_store_leases{kind="semaphore"} 1`,
		`holdfast_store_leases{kind="rw"} 0`,
		`holdfast_store_waiters{kind="mutex"} 1`,
		`holdfast_store_waiters{kind="semaphore"} 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	for _, name := range []string{"holdfast_store_longest_lease_seconds", "holdfast_store_longest_wait_seconds", "holdfast_store_read_duration_seconds"} {
		if v := families[name].Metric[0].GetGauge().GetValue(); v <= 0 || v > 60 {
			t.Errorf("%s is %v", name, v)
		}
	}
}

func awaitWaiter(t *testing.T, c *holdfast.Client, name string) {
	t.Helper()
	for limit := time.Now().Add(waitTimeout); ; <-time.After(time.Millisecond) {
		if snap, err := c.Snapshot(t.Context(), name); err != nil || time.Now().After(limit) {
			t.Fatal(snap, err)
		} else if len(snap.Waiters) > 0 {
			return
		}
	}
}

// A quorum does not show waiters: their metrics are missing, also when nothing is in use.
func TestStoreMetricsOfAQuorum(t *testing.T) {
	c := client(t, quorum.New(memory.New(), memory.New(), memory.New()), "shop")
	m := &storeMetrics{s: &session{Client: c, at: "quorum"}}
	if got := scrape(t, m); strings.Contains(got, "wait_seconds") || !strings.Contains(got, `holdfast_store_leases{kind="mutex"} 0`) {
		t.Errorf("got\n%s", got)
	}
	if _, err := c.Mutex("a").Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.at = time.Time{}
	if got := scrape(t, m); strings.Contains(got, "holdfast_store_waiters") || !strings.Contains(got, `holdfast_store_leases{kind="mutex"} 1`) {
		t.Errorf("got\n%s", got)
	}
}

// If the store cannot be read, that is all there is.
func TestStoreMetricsOfAStoreThatIsDown(t *testing.T) {
	c := client(t, memory.New(), "shop")
	_ = c.Close()
	if got := readMetrics(t, scrape(t, &storeMetrics{s: &session{Client: c, at: "memory"}})); len(got) != 1 || got["holdfast_store_up"].Metric[0].GetGauge().GetValue() != 0 {
		t.Errorf("got %v", got)
	}
}

// The metrics of a run are those of the documentation, and the last success stays when a run fails.
func TestRunMetrics(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.prom")
	run := func(code int) map[string]*dto.MetricFamily {
		t.Helper()
		c := &guarded{verb: "run", Resource: "evil \"name\"\n\xff", guardFlags: guardFlags{MetricsFile: file}}
		m, err := c.startMetrics()
		if err != nil {
			t.Fatal(err)
		}
		m.acquire(2 * time.Second)
		m.Renew(holdfast.RenewEvent{Left: 10 * time.Second})
		m.Renew(holdfast.RenewEvent{Left: 5 * time.Second, Err: holdfast.ErrUnavailable})
		m.release()
		var result error
		if code != 0 {
			result = &exitError{code: code}
		}
		m.end(result, nil)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return readMetrics(t, string(text))
	}
	value := func(f *dto.MetricFamily) float64 { return f.Metric[0].GetGauge().GetValue() }
	first := run(0)
	if got := slices.Sorted(maps.Keys(first)); !slices.Equal(got, documented(t, "holdfast_run_")) {
		t.Errorf("%q are written, %q documented", got, documented(t, "holdfast_run_"))
	}
	if got := first["holdfast_run_held"].Metric[0].Label[0].GetValue(); got != "evil \"name\"\n\ufffd" {
		t.Errorf("resource %q", got)
	}
	second := run(79)
	for name, want := range map[string]float64{
		"holdfast_run_exit_code": 79, "holdfast_run_held": 0, "holdfast_run_wait_seconds": 2, "holdfast_run_renew_left_seconds": 5,
		lastSuccess: value(first[lastSuccess]),
	} {
		if got := value(second[name]); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for i, m := range second["holdfast_run_renewals_total"].Metric {
		if m.GetCounter().GetValue() != 1 {
			t.Errorf("renewals %d: %v", i, m)
		}
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); err != nil || len(left) != 1 {
		t.Errorf("%q are left, %v", left, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
