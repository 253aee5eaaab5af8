// Package metrics writes metrics in the text format of Prometheus, for a scrape and
// for the textfile collector of node_exporter. docs/METRICS.md has the metrics.
package metrics

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A Sample is metrics with the values of one moment. The zero value is empty. Its texts are UTF-8.
type Sample struct {
	text bytes.Buffer
	last string // name of the latest metric
}

// Labels are names and values of labels in turn.
type Labels []string

// Gauge adds a value that goes up and down. Values of one name follow each other.
func (s *Sample) Gauge(name, help string, value float64, labels Labels) {
	s.add("gauge", name, help, value, labels)
}

// Counter adds a value that grows.
func (s *Sample) Counter(name, help string, value float64, labels Labels) {
	s.add("counter", name, help, value, labels)
}

func (s *Sample) add(kind, name, help string, value float64, labels Labels) {
	if name != s.last {
		s.last = name
		fmt.Fprintf(&s.text, "# HELP %s %s\n# TYPE %s %s\n", name, strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(help), name, kind)
	}
	s.text.WriteString(name)
	for i := 0; i+1 < len(labels); i += 2 {
		open := ","
		if i == 0 {
			open = "{"
		}
		fmt.Fprintf(&s.text, `%s%s="%s"`, open, labels[i], strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(labels[i+1]))
	}
	if len(labels) > 0 {
		s.text.WriteByte('}')
	}
	fmt.Fprintf(&s.text, " %s\n", strconv.FormatFloat(value, 'g', -1, 64))
}

// Serve answers a scrape, in the format that every scraper reads.
func (s *Sample) Serve(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(s.text.Bytes()) // the scraper has gone
}

// WriteFile replaces a file by the sample in one step: a reader finds the old or the new content. The file can be read
// by all users, since the collector is another one.
func (s *Sample) WriteFile(path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // a collector reads *.prom only
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // after the rename there is nothing to remove
	_, err = f.Write(s.text.Bytes())
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
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		of, v, err := parse(line)
		if err != nil {
			return 0, false, fmt.Errorf("%s has no metrics: %w", path, err)
		}
		if of == name && !ok {
			value, ok = v, true
		}
	}
	if err := lines.Err(); err != nil {
		return 0, false, fmt.Errorf("%s has no metrics: %w", path, err)
	}
	return value, ok, nil
}

// parse parses the line of a value without a time.
func parse(line string) (name string, value float64, err error) {
	space := strings.LastIndexByte(line, ' ')
	if space < 0 {
		return "", 0, fmt.Errorf("a line has no value: %q", line)
	}
	name = line[:space]
	if i := strings.IndexByte(name, '{'); i >= 0 && strings.HasSuffix(name, "}") {
		name = name[:i]
	}
	if name == "" || strings.ContainsFunc(name, notInName) {
		return "", 0, fmt.Errorf("a line has no name of a metric: %q", line)
	}
	value, err = strconv.ParseFloat(line[space+1:], 64)
	return name, value, err
}

func notInName(r rune) bool {
	return r != '_' && r != ':' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}
