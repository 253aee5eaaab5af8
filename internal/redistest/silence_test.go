package redistest

import (
	"testing"
	"time"
)

// A silence counts while it overlaps the time after t, and no longer.
func TestSilenceSince(t *testing.T) {
	now := time.Now()
	s := &Silence{answered: now.Add(-time.Minute)}
	s.answer(now.Add(-time.Minute + 400*time.Millisecond))
	s.answer(now.Add(-time.Minute + 410*time.Millisecond)) // too short to count
	s.answer(now.Add(-time.Minute + 710*time.Millisecond))
	s.answered = now
	for _, c := range []struct{ since, want time.Duration }{
		{0, 400 * time.Millisecond}, {400 * time.Millisecond, 300 * time.Millisecond}, {710 * time.Millisecond, 0},
	} {
		if got := s.Since(now.Add(-time.Minute + c.since)); got < c.want || got > c.want+leastSilence {
			t.Errorf("since %v: %v, want %v", c.since, got, c.want)
		}
	}
}

// A server that is stopped is silent.
func TestWatchSilence(t *testing.T) {
	server := Start(t)
	start := time.Now()
	s := WatchSilence(server.Client().Options())
	t.Cleanup(s.Stop)
	server.Pause()
	Await(t, 10*time.Second, "the server has been silent for long", func() bool { return s.Since(start) >= 3*leastSilence })
	server.Resume()
	Await(t, 10*time.Second, "the server answers again", func() bool { return s.Since(time.Now()) < leastSilence })
	if got := s.Since(start); got < 3*leastSilence {
		t.Errorf("the silence is forgotten: %v", got)
	}
}
