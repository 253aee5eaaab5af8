package trace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// Verdict is what a module says of a trace.
type Verdict struct {
	Accepted bool
	// At is the number of the first event that the module does not explain, from 0 on.
	At int
	// Text is what TLC has printed of it: what the module has instead.
	Text string
}

var (
	accepted = regexp.MustCompile(`(?m)^<<"accepted", (\d+)>>`)
	differs  = regexp.MustCompile(`(?m)^<<\s*"differs",\s*(\d+),\s*(\d+),.*(?:\n .*)*`)
)

// TLC is the model checker of TLA+.
type TLC struct {
	Jar  string
	Spec string // the folder of the modules
}

// Queue plays a batch of traces against module Queue.
func (c TLC) Queue(ctx context.Context, b Batch) ([]Verdict, error) {
	return c.check(ctx, "Queue", b.module("QueueTraces", Trace.queue), b.queueConfig(), len(b.Traces))
}

// Token plays a batch of traces against module Token.
func (c TLC) Token(ctx context.Context, b Batch) ([]Verdict, error) {
	var of [][]int
	module := b.module("TokenTraces", func(t Trace) string {
		text, events := t.token()
		of = append(of, events)
		return text
	})
	verdicts, err := c.check(ctx, "Token", module, tokenConfig, len(b.Traces))
	for i, v := range verdicts {
		if !v.Accepted {
			verdicts[i].At = of[i][v.At]
		}
	}
	return verdicts, err
}

// check plays traces against a module, in one start of TLC.
func (c TLC) check(ctx context.Context, module, traces, config string, count int) ([]Verdict, error) {
	dir, err := os.MkdirTemp("", "holdfast-trace-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for name, text := range map[string]string{module + "Traces.tla": traces, "trace.cfg": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	cmd := exec.CommandContext(ctx, "java", "-XX:+UseSerialGC", "-Xmx1g", "-Xss64m", "-DTLA-Library="+dir, "-Djava.io.tmpdir="+dir, "-cp", c.Jar, "tlc2.TLC",
		"-deadlock", "-workers", "1", "-fp", "1", "-metadir", dir, "-config", filepath.Join(dir, "trace.cfg"), module+"Trace.tla")
	cmd.Dir = c.Spec
	out, err := cmd.CombinedOutput()
	text := string(out)
	if err != nil || !strings.Contains(text, "Model checking completed. No error has been found.") {
		return nil, fmt.Errorf("TLC failed: %w\n%s", errors.Join(err, ctx.Err()), text)
	}
	return read(text, count)
}

// read reads what TLC has printed of a number of traces.
func read(text string, count int) ([]Verdict, error) {
	verdicts := make([]Verdict, count)
	for _, m := range differs.FindAllStringSubmatch(text, -1) {
		n, at := number(m[1])-1, number(m[2])-1
		if v := &verdicts[n]; v.Text == "" || v.At < at {
			v.At, v.Text = at, m[0]
		}
	}
	for _, m := range accepted.FindAllStringSubmatch(text, -1) {
		verdicts[number(m[1])-1] = Verdict{Accepted: true}
	}
	for i, v := range verdicts {
		if !v.Accepted && v.Text == "" {
			return nil, fmt.Errorf("TLC has said nothing of trace %d:\n%s", i+1, text)
		}
	}
	return verdicts, nil
}

// number reads digits.
func number(digits string) int {
	n, _ := strconv.Atoi(digits)
	return n
}
