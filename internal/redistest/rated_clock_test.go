package redistest

import (
	"testing"
	"time"
)

// A clock and its inverse agree.
func TestRatedClock(t *testing.T) {
	now := time.Now().Round(0)
	for _, gain := range []float64{-0.018, 0, 0.01, 0.3} {
		c := NewRatedClock(now, gain)
		after := c.At(now.Add(10 * time.Second))
		if got, want := after.Sub(now).Seconds(), 10*(1+gain); got < want-1e-6 || got > want+1e-6 {
			t.Errorf("gain %v: after 10 s it shows %v s more, want %v", gain, got, want)
		}
		if back := c.Real(after).Sub(now); back < 10*time.Second-time.Microsecond || back > 10*time.Second+time.Microsecond {
			t.Errorf("gain %v: it shows that after %v, want 10 s", gain, back)
		}
	}
	slow := NewRatedClock(now, 0.01).adjusted(-20*time.Millisecond, time.Millisecond).adjusted(time.Millisecond, time.Millisecond)
	if apart := slow.At(now).Sub(now); apart != -19*time.Millisecond || slow.Error() != 21*time.Millisecond {
		t.Errorf("a clock that began 20 ms late, and then 1 ms early, is ahead by %v, plus or minus %v", apart, slow.Error())
	}
	if (RatedClock{}).At(now) != now || (RatedClock{}).Real(now) != now {
		t.Error("the zero clock is not the machine's")
	}
}
