// Package again has tests that fail in the ways that .ci/again distinguishes.
package again

import (
	"os"
	"testing"
)

// failOnce fails when it runs for the first time.
func failOnce(t *testing.T, complaint string) {
	t.Helper()
	f, err := os.OpenFile(os.Getenv("AGAIN_FOLDER")+"/ran", os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		f.Close()
		t.Error(complaint)
	}
}

func TestSlow(t *testing.T) {
	t.Run("part", func(t *testing.T) { failOnce(t, "not in 10s: the lease is renewed") })
	t.Run("other", func(t *testing.T) {
		if os.Getenv("AGAIN_FOLDER") == "" {
			t.Error("no folder")
		}
	})
}

func TestBroken(t *testing.T) { failOnce(t, "promise broken: two inside") }

func TestPanic(t *testing.T) {
	defer func() {
		if t.Failed() {
			panic("no")
		}
	}()
	failOnce(t, "no")
}

func TestAlways(t *testing.T) {
	t.Run("a+b (x)", func(t *testing.T) { t.Error("no") })
}
