package redistest

import (
	"testing"
	"time"
)

func TestAwaitLooksUntilItHolds(t *testing.T) {
	looks := 0
	Await(t, time.Minute, "the third look", func() bool { looks++; return looks == 3 })
	if looks != 3 {
		t.Errorf("%d looks, want 3", looks)
	}
	if !failed(func(t testing.TB) { Await(t, time.Millisecond, "never", func() bool { return false }) }) {
		t.Error("Await does not fail the test after its limit")
	}
}
