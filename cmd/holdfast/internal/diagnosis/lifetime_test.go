package diagnosis

import (
	"testing"
	"time"
)

func TestRoundUp(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		3 * time.Millisecond: 10 * time.Millisecond, 101 * time.Millisecond: 200 * time.Millisecond, 2100 * time.Millisecond: 3 * time.Second,
		11 * time.Second: 20 * time.Second, 112 * time.Second: 120 * time.Second, time.Second: time.Second,
	} {
		if got := roundUp(d); got != want {
			t.Errorf("roundUp(%v) = %v, want %v", d, got, want)
		}
	}
}
