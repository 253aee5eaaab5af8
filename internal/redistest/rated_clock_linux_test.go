package redistest

import (
	"testing"
	"time"
)

// The clock of a server, by which its keys expire too, runs at the rate, also after a restart.
func TestServerWithItsClockRate(t *testing.T) {
	const gain = 0.3
	s := Start(t, WithAppendOnly(), WithClockRate(gain))
	c := s.Client()
	shows := func() (apart time.Duration) { // from what it should show
		before := time.Now().Round(0)
		at, err := c.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		if apart = at.Sub(s.Clock().At(before)); apart > 0 {
			apart = max(0, at.Sub(s.Clock().At(time.Now().Round(0))))
		}
		return apart
	}
	const slack = 5 * time.Millisecond
	start := time.Now()
	if err := c.Set(t.Context(), "a", 1, 1300*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	Await(t, 10*time.Second, "the key expires", func() bool { return c.Exists(t.Context(), "a").Val() == 0 })
	if took := time.Since(start); took < time.Second-slack {
		t.Errorf("a key of 1.3 s expired after %v, want about 1 s", took)
	}
	if apart := shows(); apart.Abs() > slack {
		t.Errorf("the server's clock is %v from what it should show", apart)
	}
	if ahead := time.Until(s.Clock().At(time.Now())); ahead < 250*time.Millisecond {
		t.Errorf("after a second the clock is ahead by %v, want 300ms", ahead)
	}
	s.Restart()
	Await(t, 10*time.Second, "the server is back", func() bool { return c.Ping(t.Context()).Err() == nil })
	if apart := shows(); apart.Abs() > slack {
		t.Errorf("after a restart the server's clock is %v from what it should show", apart)
	}
}
