package doctor

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// slowEntry is the longest time for which the server is known to have been busy
// with one thing.
type slowEntry struct {
	took time.Duration
	what string
}

// slowEntries is how much of the slow log is read.
const slowEntries = 128

// askSlowest looks for what kept the server busy; it may be refused. Of a command
// it keeps the name only: arguments may be anybody's data.
func askSlowest(ctx context.Context, rdb *redis.Client) slowEntry {
	var worst slowEntry
	log, _ := rdb.SlowLogGet(ctx, slowEntries).Result() // refused: nothing is known
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

// pause is the longest known time for which the server answered nobody.
func (s *server) pause() slowEntry {
	worst := s.slowest
	if fork, ok := s.info.number("latest_fork_usec"); ok {
		if took := time.Duration(fork) * time.Microsecond; took > worst.took {
			worst = slowEntry{took, "the last fork for a snapshot"}
		}
	}
	return worst
}

// checkPauses: while a server is busy with one thing no lease is renewed.
func (s *server) checkPauses(o Options) []Finding {
	const check = "pauses"
	worst := s.pause()
	if logged, ok := s.conf.number("slowlog-log-slower-than"); ok && logged < 0 && worst.took <= o.TTL/10 {
		return []Finding{s.unknown(check, "set slowlog-log-slower-than 10000", "the slow log is off (slowlog-log-slower-than %d)", logged)}
	}
	if worst.took == 0 {
		return []Finding{s.ok(check, "none known")}
	}
	f := s.ok(check, "the longest known is %s (%s)", span(worst.took), worst.what)
	if worst.took > o.TTL/10 {
		f = s.warn(check, "find the command (SLOWLOG GET) or what the machine lacks; or use a longer TTL",
			"the server answered nobody for %s (%s), which is more than a tenth of the TTL", span(worst.took), worst.what)
	}
	return []Finding{f.with("pause_ms", millis(worst.took))}
}
