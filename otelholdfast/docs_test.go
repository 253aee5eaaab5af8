package otelholdfast_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// docs/METRICS.md has each attribute, and each value of those whose values are constants of the library.
func TestAttributesAreDocumented(t *testing.T) {
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	values := map[string][]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z._]+)`[^|]*\\| ([^;|]*)").FindAllStringSubmatch(read("../docs/METRICS.md"), -1) {
		for _, v := range strings.Split(row[2], ",") {
			values[row[1]] = append(values[row[1]], strings.TrimSpace(v))
		}
	}
	keys := regexp.MustCompile(`attribute\.Key\("(.+)"\)`).FindAllStringSubmatch(read("attributes.go"), -1)
	if len(keys) < 8 {
		t.Errorf("attributes.go has the keys %q", keys)
	}
	for _, key := range keys {
		if values[key[1]] == nil {
			t.Errorf("%s is not documented", key[1])
		}
	}
	want := func(key string, value fmt.Stringer) {
		if !slices.Contains(values[key], value.String()) {
			t.Errorf("%s has %q, documented are %q", key, value, values[key])
		}
	}
	for way := holdfast.HandOffStore; way.String() != holdfast.HandOff(0).String(); way++ {
		want("holdfast.handoff", way)
	}
	for source := holdfast.SourceStore; source.String() != holdfast.Source(0).String(); source++ {
		want("holdfast.source", source)
	}
	for cause := holdfast.LostExpired; cause.String() != holdfast.LostCause(0).String(); cause++ {
		want("holdfast.cause", cause)
	}
}
