package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
)

// place in the docs: what stands between two such lines is written anew.
var slot = regexp.MustCompile(`(?s)(<!-- bench: ([^\n]*?) -->\n).*?(<!-- /bench -->)`)

// fill writes the tables into a document, each where the document asks for it:
// by the name of a scenario, or "about", or "bars". A scenario that was not
// played keeps what stands there.
func (o *outcome) fill(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !slot.Match(text) {
		return fmt.Errorf("%s has no line <!-- bench: … -->", path)
	}
	text = slot.ReplaceAllFunc(text, func(old []byte) []byte {
		m := slot.FindSubmatch(old)
		var b bytes.Buffer
		o.part(&b, string(m[2]))
		if b.Len() == 0 {
			return old
		}
		return append(append(append([]byte{}, m[1]...), b.Bytes()...), m[3]...)
	})
	return os.WriteFile(path, text, 0o644)
}

// part writes what a place asks for.
func (o *outcome) part(b *bytes.Buffer, name string) {
	switch name {
	case "about":
		fmt.Fprintf(b, "%s.\n", o.About)
	case "bars":
		o.barsTable(b)
	}
	for i, t := range o.Tables {
		if t.Scenario != name {
			continue
		}
		if i > 0 && o.Tables[i-1].Scenario == name {
			fmt.Fprintln(b)
		}
		if t.Case != "" {
			fmt.Fprintf(b, "**%s**\n\n", t.Case)
		}
		t.markdown(b)
	}
}
