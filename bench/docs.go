package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
)

// slot matches two marker lines of a document and the text between them, which is replaced.
var slot = regexp.MustCompile(`(?s)(<!-- bench: ([^\n]*?) -->\n).*?(<!-- /bench -->)`)

// barsOf returns the bars of the scenarios that are of stores, or of the others.
func (o *outcome) barsOf(stores bool) (some []verdict) {
	for _, v := range o.Bars {
		if ofStores(v.Scenario) == stores {
			some = append(some, v)
		}
	}
	return some
}

// fillDocs writes the tables into the slots of a document. A slot has the name of a
// scenario, "about", "bars", "bars of stores" or "stores"; one without figures is unchanged.
func (o *outcome) fillDocs(path string) error {
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
		o.writePart(&b, string(m[2]))
		if b.Len() == 0 {
			return old
		}
		return append(append(append([]byte{}, m[1]...), b.Bytes()...), m[3]...)
	})
	return os.WriteFile(path, text, 0o644)
}

// writePart writes the text of one slot.
func (o *outcome) writePart(b *bytes.Buffer, name string) {
	switch name {
	case "about":
		fmt.Fprintf(b, "%s.\n", o.About)
	case "bars":
		barsTable(b, o.barsOf(false))
	case "bars of stores":
		barsTable(b, o.barsOf(true))
	case "stores":
		o.storesTable(b)
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
