package doctor

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// slowEntry is the longest known time in which the server was busy with one command.
type slowEntry struct {
	took time.Duration
	what string
}

// slowEntries is how much of the slow log is read.
const slowEntries = 128

// askSlowest returns the slowest entry of the slow log, which may be refused. It keeps only the name
// of the command: its arguments may be private.
func askSlowest(ctx context.Context, rdb *redis.Client) slowEntry {
	var worst slowEntry
	log, _ := rdb.SlowLogGet(ctx, slowEntries).Result() // empty if it is refused
	for _, e := range log {
		if e.Duration > worst.took && len(e.Args) > 0 {
			worst = slowEntry{e.Duration, strings.ToUpper(e.Args[0]) + " in the slow log"}
		}
	}
	events, _ := rdb.Do(ctx, "latency", "latest").Slice()
	for _, e := range events {
		if row, ok := e.([]any); ok && len(row) >= 4 {
			name, _ := row[0].(string)
			worstMs, _ := row[3].(int64)
			if took := time.Duration(worstMs) * time.Millisecond; took > worst.took {
				worst = slowEntry{took, "event " + name + " of the latency monitor"}
			}
		}
	}
	return worst
}

// pause returns the longest known time in which the server did not answer.
func (s *server) pause() slowEntry {
	worst := s.slowest
	if fork, ok := s.info.number("latest_fork_usec"); ok {
		if took := time.Duration(fork) * time.Microsecond; took > worst.took {
			worst = slowEntry{took, "the last fork for a snapshot"}
		}
	}
	return worst
}

// checkPauses checks for long pauses: during them no lease is renewed.
func (s *server) checkPauses(r *diagnosis.Report, o diagnosis.Options) {
	c := s.Check("pauses", &r.Findings)
	worst := s.pause()
	if logged, ok := s.conf.number("slowlog-log-slower-than"); ok && logged < 0 && worst.took <= o.TTL/10 {
		c.Unknown("set slowlog-log-slower-than 10000", "the slow log is off (slowlog-log-slower-than %d)", logged)
		return
	}
	if worst.took == 0 {
		c.OK("none known")
		return
	}
	c = c.With("pause_ms", diagnosis.Millis(worst.took))
	c.WarnIf(worst.took > o.TTL/10, "find the command (SLOWLOG GET) or what the machine lacks; or use a longer TTL",
		"the server did not respond for %s (%s), which is more than a tenth of the TTL", diagnosis.Span(worst.took), worst.what)
	c.Otherwise("the longest known is %s (%s)", diagnosis.Span(worst.took), worst.what)
}
