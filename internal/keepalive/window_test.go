package keepalive

import (
	"testing"
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

// Two clocks: an instant at mono after the start by the monotonic clock reads
// mono+step on the wall. A suspended machine has step > 0, a wall clock that was
// set back step < 0. A time without a monotonic reading is compared by its wall
// clock, so the two are taken from different instants.
type instant struct{ mono, step time.Duration }

func (w *Window) leftAt(i instant) time.Duration {
	byMono := w.mono.Load() - int64(i.mono)
	byWall := w.wall.Load() - w.base.Add(i.mono+i.step).UnixNano()
	return time.Duration(min(byMono, byWall))
}

func TestWindowEndsByWhicheverClockSaysSoFirst(t *testing.T) {
	const ttl, margin = 10 * time.Second, 220 * time.Millisecond
	var w Window
	if w.Left(time.Now()) > 0 {
		t.Error("the zero window is open")
	}
	w.Start(time.Now(), ttl, margin)
	for _, c := range []struct {
		name string
		at   instant
		want time.Duration
	}{
		{"at the start", instant{}, ttl - margin},
		{"both clocks run", instant{mono: 4 * time.Second}, ttl - margin - 4*time.Second},
		{"just before the end", instant{mono: ttl - margin - 1}, 1},
		{"at the end", instant{mono: ttl - margin}, 0},
		{"suspended for an hour", instant{mono: time.Second, step: time.Hour}, ttl - margin - time.Second - time.Hour},
		{"wall clock set back an hour", instant{mono: 9 * time.Second, step: -time.Hour}, ttl - margin - 9*time.Second},
	} {
		if got := w.leftAt(c.at); got != c.want {
			t.Errorf("%s: left %v; want %v", c.name, got, c.want)
		}
	}
	if got := w.Left(w.base.Add(4 * time.Second)); got != ttl-margin-4*time.Second {
		t.Errorf("Left: %v", got)
	}
	if got := w.End().Sub(w.base); got != ttl-margin {
		t.Errorf("End: %v after the start", got)
	}
}

func TestWindowExtends(t *testing.T) {
	const ttl, margin = 10 * time.Second, 220 * time.Millisecond
	var w Window
	start := time.Now()
	w.Start(start, ttl, margin)
	w.Extend(start.Add(5*time.Second), ttl, margin)
	if got := w.Left(start.Add(5 * time.Second)); got != ttl-margin {
		t.Errorf("extended: %v left", got)
	}
	w.Extend(start.Add(time.Second), ttl, margin) // an old answer comes late
	if got := w.Left(start.Add(5 * time.Second)); got != ttl-margin {
		t.Errorf("an old answer moved the end: %v left", got)
	}
}

// After the wall clock was set back, a renewal has to take its new reading, or a
// suspend shorter than the step would go unseen until the lease ends.
func TestWindowFollowsAWallClockThatWasSetBack(t *testing.T) {
	const ttl, margin = 10 * time.Second, 220 * time.Millisecond
	var w Window
	start := time.Now()
	w.Start(start, ttl, margin)
	w.wall.Store(w.wall.Load() + int64(time.Hour)) // what was stored an hour "later"
	w.Extend(start.Add(5*time.Second), ttl, margin)
	suspended := instant{mono: 6 * time.Second, step: 30 * time.Minute}
	if left := w.leftAt(suspended); left > 0 {
		t.Errorf("30 minutes of suspend went unseen: %v left", left)
	}
}
