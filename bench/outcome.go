package main

import (
	"encoding/json"
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
	if f.json == "" {
		return missed, nil
	}
	b, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return missed, err
	}
	return missed, os.WriteFile(f.json, append(b, '\n'), 0o644)
}
