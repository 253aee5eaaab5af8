package web

import (
	"time"
)

const (
	// hourSpan is how far back an hour goes, in steps of hourStep.
	hourSpan = time.Hour
	hourStep = 10 * time.Second
	// hourPause is the longest time between two readings in which grants are counted, and over which a
	// line is drawn: after a longer one, nothing is known of the time between.
	hourPause = time.Minute
)

// hour has what the readings of the last hour found. It keeps one step for ten seconds, however many readings
// there are, so it has at most hourSpan/hourStep+1 of them.
type hour struct {
	steps []hourly // oldest first
	read  time.Time
}

// hourly is what was found in one step.
type hourly struct {
	at              time.Time // its beginning, by the store's clock
	waiters, leases int       // the most that a reading found
	grants          int       // leases that began in it and that a reading found
	unknown         bool      // how many waiters there are, as on a quorum
}

// add adds a reading.
func (h *hour) add(rows []*row, t totals) {
	if h.read.Sub(t.At) > hourPause {
		*h = hour{} // the store's clock was set back
	}
	grants := 0
	if t.At.Sub(h.read) <= hourPause {
		grants = begunBetween(rows, h.read, t.At)
	}
	h.read = later(h.read, t.At)
	at := h.read.Truncate(hourStep)
	if n := len(h.steps); n == 0 || h.steps[n-1].at.Before(at) {
		h.steps = append(h.steps, hourly{at: at})
	}
	s := &h.steps[len(h.steps)-1]
	s.waiters, s.leases, s.grants, s.unknown = max(s.waiters, t.Waiters), max(s.leases, t.Leases), s.grants+grants, s.unknown || t.Unknown
	for h.steps[0].at.Before(at.Add(-hourSpan)) {
		h.steps = h.steps[1:]
	}
}

// begunBetween counts the leases that began after one reading and not after the next. What began while
// a reading was under way is counted by the next, so nothing is counted twice.
func begunBetween(rows []*row, from, to time.Time) (n int) {
	for _, r := range rows {
		for _, h := range r.Holders {
			if h.Since.After(from) && !h.Since.After(to) {
				n++
			}
		}
	}
	return n
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// series returns what is known, as points.
func (h *hour) series() []Series {
	const source = "seen here"
	waiting := Series{Name: "waiters", Title: "Waiting", Source: source}
	held := Series{Name: "leases", Title: "Held", Source: source}
	granted := Series{Name: "grants_seen", Title: "Grants in 10 s", Source: source}
	for _, s := range h.steps {
		if !s.unknown {
			waiting.Points = append(waiting.Points, Point{s.at, float64(s.waiters)})
		}
		held.Points = append(held.Points, Point{s.at, float64(s.leases)})
		granted.Points = append(granted.Points, Point{s.at, float64(s.grants)})
	}
	return []Series{waiting, held, granted}
}
