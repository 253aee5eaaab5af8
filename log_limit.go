package holdfast

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// logBurst is how many events of one kind a client logs one by one in a logSpan. It counts
// the others and logs their number when the span is over, since 100,000 leases may be lost
// at one moment. A queue may be long for hours, so its span is longer.
const (
	logBurst  = 10
	logSpan   = time.Second
	queueSpan = time.Minute
)

// logLimit bounds what a client logs about leases. Hooks get each event.
type logLimit struct {
	log *slog.Logger

	mu          sync.Mutex
	lost        burst
	jeopardy    burst
	unconfirmed burst
	queues      burst
	terms       burst
}

// burst counts the events of one kind in the current span.
type burst struct {
	what  string
	level slog.Level
	span  time.Duration
	seen  int
	timer *time.Timer // nil: no span is under way
}

func (j *logLimit) open(log *slog.Logger) {
	j.log = log
	j.lost = burst{what: "holdfast: more leases were lost", level: slog.LevelError, span: logSpan}
	j.jeopardy = burst{what: "holdfast: more renewals are overdue; retrying until the trust windows close", level: slog.LevelWarn, span: logSpan}
	j.unconfirmed = burst{what: "holdfast: more releases were not confirmed; the leases and waits end by their TTLs", level: slog.LevelWarn, span: logSpan}
	j.queues = burst{what: "holdfast: more acquires joined a long queue", level: slog.LevelWarn, span: queueSpan}
	j.terms = burst{what: "holdfast: more election terms began or ended", level: slog.LevelInfo, span: logSpan}
}

// admits reports whether an event is logged in a line of its own.
func (j *logLimit) admits(b *burst) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if b.timer == nil {
		b.timer = time.AfterFunc(b.span, func() { j.sum(b) })
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
	j.sum(&j.queues)
	j.sum(&j.terms)
}
