// Package metrics writes metrics in the text format of Prometheus, for a scrape and
// for the textfile collector of node_exporter. docs/METRICS.md has the metrics.
package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// A Sample is metrics with the values of one moment. The zero value is empty.
type Sample struct{ families []*dto.MetricFamily }

// Labels are names and values of labels in turn.
type Labels []string

// Gauge adds a value that goes up and down. Values of one name follow each other.
func (s *Sample) Gauge(name, help string, value float64, labels Labels) {
	s.add(dto.MetricType_GAUGE, name, help, labels).Gauge = &dto.Gauge{Value: &value}
}

// Counter adds a value that grows.
func (s *Sample) Counter(name, help string, value float64, labels Labels) {
	s.add(dto.MetricType_COUNTER, name, help, labels).Counter = &dto.Counter{Value: &value}
}

// add appends a metric to its family, which is the latest or a new one.
func (s *Sample) add(is dto.MetricType, name, help string, labels Labels) *dto.Metric {
	m := &dto.Metric{}
	for i := 0; i+1 < len(labels); i += 2 {
		m.Label = append(m.Label, &dto.LabelPair{Name: &labels[i], Value: &labels[i+1]})
	}
	if n := len(s.families); n == 0 || s.families[n-1].GetName() != name {
		s.families = append(s.families, &dto.MetricFamily{Name: &name, Help: &help, Type: &is})
	}
	last := s.families[len(s.families)-1]
	last.Metric = append(last.Metric, m)
	return m
}

func textFormat() expfmt.Format { return expfmt.NewFormat(expfmt.TypeTextPlain) }

func (s *Sample) write(w io.Writer) error {
	enc := expfmt.NewEncoder(w, textFormat())
	for _, f := range s.families {
		if err := enc.Encode(f); err != nil {
			return err
		}
	}
	return nil
}

// Serve answers a scrape, in the format that every scraper reads.
func (s *Sample) Serve(w http.ResponseWriter) {
	w.Header().Set("Content-Type", string(textFormat()))
	_ = s.write(w) // the scraper has gone
}

// WriteFile replaces a file by the sample in one step: a reader finds the old or the new content. The file can be read
// by all users, since the collector is another one.
func (s *Sample) WriteFile(path string) error {
	var text bytes.Buffer
	if err := s.write(&text); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // a collector reads *.prom only
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // after the rename there is nothing to remove
	_, err = f.Write(text.Bytes())
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// ReadFile returns the value of a metric, without regard to its labels, in a file that WriteFile has written.
// If there is no file or no such metric, ok is false.
func ReadFile(path, name string) (value float64, ok bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	defer f.Close()
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(f)
	if err != nil {
		return 0, false, fmt.Errorf("%s has no metrics: %w", path, err)
	}
	for _, m := range families[name].GetMetric() {
		return m.GetGauge().GetValue(), true, nil
	}
	return 0, false, nil
}
