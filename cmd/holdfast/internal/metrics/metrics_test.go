package metrics

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Prometheus's own parser reads what was written, and ReadFile the same.
func TestText(t *testing.T) {
	odd := "a\\b \"c\"\n{d} e 仓库"
	for _, value := range []float64{0, 1, -2.5, 1e-9, 1795488901.295336, math.MaxFloat64, math.Inf(1), math.Inf(-1)} {
		var s Sample
		s.Gauge("first", "A \\ in\ntwo lines.", value, Labels{"resource", odd, "verb", "run"})
		s.Counter("second_total", "Counts.", 3, Labels{"outcome", "done"})
		s.Counter("second_total", "Counts.", 4, Labels{"outcome", "failed"})
		s.Gauge("third", "No labels.", 5, nil)
		path := filepath.Join(t.TempDir(), "x.prom")
		if err := s.WriteFile(path); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		p := expfmt.NewTextParser(model.LegacyValidation)
		families, err := p.TextToMetricFamilies(f)
		if err != nil {
			t.Fatal(err)
		}
		first, second := families["first"], families["second_total"]
		if first.GetHelp() != "A \\ in\ntwo lines." || first.GetMetric()[0].GetGauge().GetValue() != value || first.GetMetric()[0].GetLabel()[0].GetValue() != odd {
			t.Errorf("%v: read as %v", value, first)
		}
		if m := second.GetMetric(); len(m) != 2 || m[1].GetCounter().GetValue() != 4 || m[1].GetLabel()[0].GetValue() != "failed" {
			t.Errorf("read as %v", second)
		}
		for name, want := range map[string]float64{"first": value, "second_total": 3, "third": 5} {
			if got, ok, err := ReadFile(path, name); got != want || !ok || err != nil {
				t.Errorf("%s: %v, %v, %v; want %v", name, got, ok, err, want)
			}
		}
		if _, ok, err := ReadFile(path, "fourth"); ok || err != nil {
			t.Errorf("a metric that is not there: %v, %v", ok, err)
		}
	}
}

// A file of something else is not taken for metrics.
func TestReadFileRefuses(t *testing.T) {
	for _, text := range []string{"hello\n", "a text of words\n", "x y 1\n", "{} 1\n", "name one\n", "#!/bin/sh\necho 1 2\n", " 1\n"} {
		path := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if v, ok, err := ReadFile(path, "echo"); err == nil {
			t.Errorf("%q: %v, %v", text, v, ok)
		}
	}
	if _, ok, err := ReadFile(filepath.Join(t.TempDir(), "none"), "x"); ok || err != nil {
		t.Errorf("no file: %v, %v", ok, err)
	}
}
