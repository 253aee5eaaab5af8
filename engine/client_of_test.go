package engine_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/engine"
)

func TestClientOf(t *testing.T) {
	for id, want := range map[string]string{
		"client.attempt": "client",
		"client":         "client",
		"client.":        "client",
		"a.b.c":          "a",
		".attempt":       "",
		"":               "",
	} {
		if got := engine.ClientOf(id); got != want {
			t.Errorf("ClientOf(%q) = %q, want %q", id, got, want)
		}
	}
}
