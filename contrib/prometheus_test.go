package contrib

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/web"
)

// Prometheus scrapes and evaluates sixty times as often as usual, so that the minutes of the
// rules are seconds here.
const config = `
global: {scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}
rule_files: [%s]
scrape_configs:
%s`

var minutes = regexp.MustCompile(`\b(\d+)m\b`)

// server is a Prometheus that scrapes a fleet, and dashboards.
type server struct {
	url string
	log *bytes.Buffer
}

func startPrometheus(t *testing.T, f fleet, dashboards map[string]string) *server {
	t.Helper()
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Fatal("prometheus is missing: run make prometheus")
	}
	dir := t.TempDir()
	rules, err := os.ReadFile("prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "alerts.yml")
	var jobs strings.Builder
	for name, s := range f {
		fmt.Fprintf(&jobs, "- {job_name: %s, static_configs: [{targets: [%q]}]}\n", name, strings.TrimPrefix(s.metrics, "http://"))
	}
	for name, address := range dashboards { // a scrape reads the store, and takes its time if that is down
		fmt.Fprintf(&jobs, "- {job_name: %s, scrape_interval: 2s, scrape_timeout: 2s, static_configs: [{targets: [%q]}]}\n", name, address)
	}
	write(t, file, minutes.ReplaceAllString(string(rules), "${1}s"))
	write(t, filepath.Join(dir, "prometheus.yml"), fmt.Sprintf(config, file, jobs.String()))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	p := &server{url: "http://" + address, log: &bytes.Buffer{}}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(p.log.String())
		}
	})
	p.until(t, time.Minute, func() string {
		r, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return err.Error()
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return r.Status
		}
		return ""
	})
	return p
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// until calls check until it returns "", which means that all is well.
func (p *server) until(t *testing.T, most time.Duration, check func() string) {
	t.Helper()
	end := time.Now().Add(most)
	for {
		why := check()
		if why == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v: %s", most, why)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// get calls the API.
func (p *server) get(path string, data any) error {
	r, err := http.Get(p.url + path)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", answer.Status, answer.Error)
	}
	return nil
}

// firing returns the alerts that fire, by job.
func (p *server) firing() (map[string][]string, error) {
	var got struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	if err := p.get("/api/v1/alerts", &got); err != nil {
		return nil, err
	}
	by := map[string][]string{}
	for _, a := range got.Alerts {
		if job, name := a.Labels["job"], a.Labels["alertname"]; a.State == "firing" && !slices.Contains(by[job], name) {
			by[job] = append(by[job], name)
		}
	}
	for _, all := range by {
		slices.Sort(all)
	}
	return by, nil
}

// results returns how many series with a number a query has.
func (p *server) results(query string) (n int, err error) {
	var got struct{ Result []struct{ Value [2]any } }
	err = p.get("/api/v1/query?query="+url.QueryEscape(query), &got)
	for _, series := range got.Result {
		if series.Value[1] != "NaN" {
			n++
		}
	}
	return n, err
}

// Each alert fires on its fault and on no other, and ends with it; every query of the dashboard has a result.
func TestAlertsAndDashboardOnAPrometheus(t *testing.T) {
	f := newFleet(t)
	command := buildCommand(t)
	p := startPrometheus(t, f, startDashboards(t, f, command))
	ctx, cancel := context.WithCancel(context.Background())
	played := f.play(ctx, t)
	defer played.Wait()
	defer cancel()
	played.Go(func() { playDemo(t, f["healthy"], command) })
	want := map[string][]string{
		"loss":   {"HoldfastLeaseLost"},
		"late":   {"HoldfastRenewalsLate", "HoldfastStoreDown"},
		"down":   {"HoldfastLeaseLost", "HoldfastNothingGranted", "HoldfastRenewalsLate", "HoldfastStoreDown"},
		"silent": {"HoldfastNothingGranted", "HoldfastStoreDown"},
		"unread": {"HoldfastStoreUnread"},
		"wait":   {"HoldfastLongWait", "HoldfastNothingGranted"},
	}
	seen := map[string][]string{}
	missing := func() string {
		now, err := p.firing()
		if err != nil {
			return err.Error()
		}
		for job, names := range now {
			for _, name := range names {
				if !slices.Contains(want[job], name) {
					t.Fatalf("%s fires in %q; want %q", name, job, want[job])
				}
				if !slices.Contains(seen[job], name) {
					seen[job] = append(seen[job], name)
				}
			}
			slices.Sort(seen[job])
		}
		if maps.EqualFunc(seen, want, slices.Equal) {
			return ""
		}
		return fmt.Sprintf("alerts that fired: %q; want %q", seen, want)
	}
	p.until(t, 2*time.Minute, missing)
	for _, q := range queries(t) {
		p.until(t, 30*time.Second, func() string {
			switch n, err := p.results(q); {
			case err != nil:
				t.Fatalf("%s: %v", q, err)
			case n == 0:
				return "no result of " + q
			}
			_ = missing() // nothing fires meanwhile that must not
			return ""
		})
	}
	p.charts(t)
	var names []string
	if err := p.get("/api/v1/label/__name__/values", &names); err != nil {
		t.Fatal(err)
	}
	for _, name := range documented(t) {
		if !slices.Contains(names, name) && !slices.Contains(names, name+"_bucket") {
			t.Errorf("docs/METRICS.md has %s, Prometheus has not: %q", name, names)
		}
	}
	cancel()
	played.Wait()
	p.until(t, 30*time.Second, func() string {
		if now, err := p.firing(); err != nil || len(now) > 0 {
			return fmt.Sprintf("alerts that fire although the faults have ended: %q, %v", now, err)
		}
		return ""
	})
}

// charts: what holdfast serve --prometheus draws has points of each series, and what was played is in them.
func (p *server) charts(t *testing.T) {
	t.Helper()
	read, err := web.Prometheus(p.url)
	if err != nil {
		t.Fatal(err)
	}
	p.until(t, time.Minute, func() string {
		all, err := read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if !slices.ContainsFunc(s.Points, func(at web.Point) bool { return at.Value > 0 }) {
				return fmt.Sprintf("%s is %v", s.Name, s.Points)
			}
		}
		return ""
	})
}

// queries returns those of the dashboard, with its variables set.
func queries(t *testing.T) (all []string) {
	t.Helper()
	text, err := os.ReadFile("grafana/holdfast.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			all = append(all, strings.NewReplacer("$__rate_interval", "5s", "$job", ".*").Replace(target.Expr))
		}
	}
	if len(all) < 12 {
		t.Errorf("%d queries", len(all))
	}
	return all
}

var documentedName = regexp.MustCompile("(?m)^\\| `holdfast\\.[^|]*\\|[^|]*\\|[^|]*\\| `(holdfast_[a-z_]+)` \\|$")

// documented returns the names of docs/METRICS.md.
func documented(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range documentedName.FindAllStringSubmatch(string(text), -1) {
		names = append(names, m[1])
	}
	if len(names) != 13 {
		t.Errorf("docs/METRICS.md has %q", names)
	}
	return names
}

// promtool accepts the rules as they are.
func TestRulesAreValid(t *testing.T) {
	if out, err := exec.Command("promtool", "check", "rules", "prometheus/alerts.yml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
