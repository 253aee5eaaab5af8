package redistest

import (
	"testing"
	"time"
)

func TestStallsExcuseNoMoreThanTheyTook(t *testing.T) {
	start := time.Now()
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	s := &Stalls{all: []stall{{at(-50), at(10)}, {at(20), at(50)}, {at(90), at(500)}}}
	if sum := s.Between(start, at(100)); sum != 50*time.Millisecond {
		t.Errorf("stalled for %v of the first 100 ms, want 50ms", sum)
	}
	for limit, wrong := range map[time.Duration]bool{49 * time.Millisecond: true, 50 * time.Millisecond: false} {
		check := func(t testing.TB) { s.WithinAt(t, start, at(100), limit, "it") }
		if failed(check) != wrong {
			t.Errorf("100 ms of which 50 were stalled: with a limit of %v failed is %v", limit, !wrong)
		}
	}
}
