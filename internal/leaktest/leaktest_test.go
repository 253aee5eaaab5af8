package leaktest

import (
	"strings"
	"testing"
)

func hang(until <-chan struct{}) { <-until }

func TestLeaksAreFound(t *testing.T) {
	Check(t)
	until := make(chan struct{})
	go hang(until)
	if left := Find(); len(left) != 1 || !strings.Contains(left[0], "leaktest.hang(") {
		t.Errorf("found %q", left)
	}
	if left := Find("leaktest.hang("); len(left) != 0 {
		t.Errorf("found what is ignored: %q", left)
	}
	close(until)
	Check(t)
}
