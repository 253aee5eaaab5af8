package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// finish evaluates the bars of what the flags ask for and writes the files. It returns the number of missed bars.
func (o *outcome) finish(f flags, out io.Writer) (missed int, err error) {
	asked := slices.DeleteFunc(bars(), func(b bar) bool { return !f.askFor(b) })
	o.Bars = judge(asked, o.Tables)
	printBars(out, o.Bars)
	for _, v := range o.Bars {
		if !v.Met {
			missed++
		}
	}
	return missed, o.write(f)
}

// write writes the files named by the flags.
func (o *outcome) write(f flags) error {
	if f.json != "" {
		if err := o.writeJSON(f.json); err != nil {
			return err
		}
	}
	if f.docs != "" {
		if err := o.fillDocs(f.docs); err != nil {
			return err
		}
	}
	if f.out == "" {
		return nil
	}
	if err := os.MkdirAll(f.out, 0o755); err != nil {
		return err
	}
	var b bytes.Buffer
	o.markdown(&b)
	return errors.Join(
		o.writeJSON(filepath.Join(f.out, "results.json")),
		os.WriteFile(filepath.Join(f.out, "results.md"), b.Bytes(), 0o644),
		o.plot(f.out),
	)
}

func (o *outcome) writeJSON(path string) error {
	b, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// redraw writes the other files from the JSON of an earlier run.
func redraw(f flags) error {
	b, err := os.ReadFile(f.from)
	if err != nil {
		return err
	}
	var o outcome
	if err := json.Unmarshal(b, &o); err != nil {
		return fmt.Errorf("%s: %w", f.from, err)
	}
	return o.write(f)
}
