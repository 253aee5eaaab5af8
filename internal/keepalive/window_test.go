package keepalive

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestMargin(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 22 * time.Millisecond,
		15 * time.Second:       320 * time.Millisecond,
		24 * time.Hour:         20*time.Millisecond + 24*time.Hour/50,
	} {
		if got := Margin(ttl); got != want {
			t.Errorf("Margin(%v) = %v; want %v", ttl, got, want)
		}
	}
}

// after is an instant that is mono later by the monotonic clock and mono+step by
// the wall clock. A suspended machine has step > 0, a wall clock that was set back
// step < 0.
func (i Moment) after(mono, step time.Duration) Moment {
	return Moment{i.Mono + mono, i.Wall + int64(mono+step)}
}

func TestClock(t *testing.T) {
	c := NewClock()
	now := time.Now()
	at, later := c.At(now), c.At(now.Add(time.Minute))
	if later != at.after(time.Minute, 0) {
		t.Errorf("a minute after %v is %v", at, later)
	}
	if at.Wall != now.UnixNano() {
		t.Errorf("%v is %v", now, at)
	}
}

// The time at which a window closes is what a caller is told and compares with now: it heeds both clocks too.
func TestCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct{ step, want time.Duration }{
			{0, 50 * time.Minute}, {30 * time.Minute, 20 * time.Minute}, {2 * time.Hour, -70 * time.Minute}, {-time.Hour, 50 * time.Minute},
			{mostDrift, 50 * time.Minute}, // it has drifted
		} {
			c := NewClock()
			var w Window
			w.Start(c.Now(), time.Hour, 0)
			time.Sleep(10 * time.Minute)
			w.wall.Add(-int64(test.step))
			if in := time.Until(c.Closes(&w)); in != test.want {
				t.Errorf("after a step of %v the window closes in %v, want %v", test.step, in, test.want)
			}
		}
	})
}

func TestWindowEndsByWhicheverClockSaysSoFirst(t *testing.T) {
	const ttl, margin = 10 * time.Second, 220 * time.Millisecond
	var w Window
	start := NewClock().Now()
	if w.Left(start) > 0 {
		t.Error("the zero window is open")
	}
	w.Start(start, ttl, margin)
	for _, c := range []struct {
		name       string
		mono, step time.Duration
		want       time.Duration
	}{
		{"at the start", 0, 0, ttl - margin},
		{"both clocks run", 4 * time.Second, 0, ttl - margin - 4*time.Second},
		{"just before the end", ttl - margin - 1, 0, 1},
		{"at the end", ttl - margin, 0, 0},
		{"suspended for an hour", time.Second, time.Hour, ttl - margin - time.Second - time.Hour},
		{"wall clock set back an hour", 9 * time.Second, -time.Hour, ttl - margin - 9*time.Second},
	} {
		if got := w.Left(start.after(c.mono, c.step)); got != c.want {
			t.Errorf("%s: left %v; want %v", c.name, got, c.want)
		}
	}
	if got := w.End() - start.Mono; got != ttl-margin {
		t.Errorf("End: %v after the start", got)
	}
}

func TestWindowExtends(t *testing.T) {
	const ttl, margin = 10 * time.Second, 220 * time.Millisecond
	var w Window
	start := NewClock().Now()
	w.Start(start, ttl, margin)
	w.Extend(start.after(5*time.Second, 0), ttl, margin)
	if got := w.Left(start.after(5*time.Second, 0)); got != ttl-margin {
		t.Errorf("extended: %v left", got)
	}
	w.Extend(start.after(time.Second, 0), ttl, margin) // an old answer comes late
	if got := w.Left(start.after(5*time.Second, 0)); got != ttl-margin {
		t.Errorf("an old answer moved the end: %v left", got)
	}
}

// After the wall clock was set back, a renewal has to take its new reading, or a
// suspend shorter than the step would go unseen until the lease ends.
func TestWindowFollowsAWallClockThatWasSetBack(t *testing.T) {
	const ttl, margin = 10 * time.Second, 220 * time.Millisecond
	var w Window
	start := NewClock().Now()
	w.Start(start, ttl, margin)
	w.wall.Store(w.wall.Load() + int64(time.Hour)) // what was stored an hour "later"
	w.Extend(start.after(5*time.Second, 0), ttl, margin)
	if left := w.Left(start.after(6*time.Second, 30*time.Minute)); left > 0 {
		t.Errorf("30 minutes of suspend went unseen: %v left", left)
	}
}
