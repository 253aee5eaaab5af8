package holdfast

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// logBurst is how many events of one kind a client logs one by one in a logSpan. It counts
// the others and logs their number when the span is over, since 100,000 leases may be lost
// at one moment.
const (
	logBurst = 10
	logSpan  = time.Second
)

// logLimit bounds what a client logs about leases. Hooks get each event.
type logLimit struct {
	log *slog.Logger

	mu          sync.Mutex
	lost        burst
	jeopardy    burst
	unconfirmed burst
}

// burst counts the events of one kind in the current span.
type burst struct {
	what  string
	level slog.Level
	seen  int
	timer *time.Timer // nil: no span is under way
}

func (j *logLimit) open(log *slog.Logger) {
	j.log = log
	j.lost.level, j.jeopardy.level, j.unconfirmed.level = slog.LevelError, slog.LevelWarn, slog.LevelWarn
	j.lost.what = "holdfast: more leases were lost"
	j.jeopardy.what = "holdfast: more renewals failed; retrying until the trust windows close"
	j.unconfirmed.what = "holdfast: more releases were not confirmed; the leases and waits end by their TTLs"
}

// admits reports whether an event is logged in a line of its own.
func (j *logLimit) admits(b *burst) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if b.timer == nil {
		b.timer = time.AfterFunc(logSpan, func() { j.sum(b) })
	}
	b.seen++
	return b.seen <= logBurst
}

// sum ends a span and logs how many events had no line.
func (j *logLimit) sum(b *burst) {
	j.mu.Lock()
	more := b.seen - logBurst
	b.seen = 0
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	j.mu.Unlock()
	if more > 0 {
		j.log.Log(context.Background(), b.level, b.what, "more", more)
	}
}

// close ends all spans.
func (j *logLimit) close() {
	j.sum(&j.lost)
	j.sum(&j.jeopardy)
	j.sum(&j.unconfirmed)
}
