package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// finish judges the bars and writes the files.
func (o *outcome) finish(f flags, out io.Writer) (missed int, err error) {
	o.Bars = judge(bars(), o.Tables)
	printBars(out, o.Bars)
	for _, v := range o.Bars {
		if !v.Met {
			missed++
		}
	}
	return missed, o.write(f)
}

// write writes the files that the flags name.
func (o *outcome) write(f flags) error {
	if f.json != "" {
		b, err := json.MarshalIndent(o, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(f.json, append(b, '\n'), 0o644); err != nil {
			return err
		}
	}
	if f.markdown != "" {
		var b bytes.Buffer
		o.markdown(&b)
		if err := os.WriteFile(f.markdown, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	if f.plots != "" {
		return o.plot(f.plots)
	}
	return nil
}

// redraw makes the other files again from an earlier run's JSON.
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
