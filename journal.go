package holdfast

import (
	"log/slog"
	"sync"
	"time"
)

// journalMost is how many events of one kind a client logs by themselves in one
// journalSpan. The others it counts, and logs the number when that is over: a log
// that 100,000 leases drown at one moment tells nobody anything.
const (
	journalMost = 10
	journalSpan = time.Second
)

// journal bounds what a client writes into its log about leases. Hooks hear of
// each.
type journal struct {
	log *slog.Logger

	mu       sync.Mutex
	lost     burst
	jeopardy burst
	givenUp  burst
}

// burst is the events of one kind in the present span.
type burst struct {
	what  string
	seen  int
	timer *time.Timer // nil: no span is under way
}

func (j *journal) open(log *slog.Logger) {
	j.log = log
	j.lost.what = "holdfast: more leases were lost"
	j.jeopardy.what = "holdfast: more renewals failed; they are tried again until the trust windows end"
	j.givenUp.what = "holdfast: more clean-ups were given up; the leases and waits end by their TTLs"
}

// admits tells whether an event gets a line of its own.
func (j *journal) admits(b *burst) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if b.timer == nil {
		b.timer = time.AfterFunc(journalSpan, func() { j.sum(b) })
	}
	b.seen++
	return b.seen <= journalMost
}

// sum ends a span.
func (j *journal) sum(b *burst) {
	j.mu.Lock()
	more := b.seen - journalMost
	b.seen = 0
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	j.mu.Unlock()
	if more > 0 {
		j.log.Warn(b.what, "more", more)
	}
}

// close ends all spans.
func (j *journal) close() {
	j.sum(&j.lost)
	j.sum(&j.jeopardy)
	j.sum(&j.givenUp)
}
