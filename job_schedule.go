package holdfast

import (
	"errors"
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

// Limits of the period of a job.
const (
	// MinPeriod and MaxPeriod bound Every.
	MinPeriod = 100 * time.Millisecond
	MaxPeriod = 366 * 24 * time.Hour

	// keepSlots and keepMin bound how long a mark outlives the beginning of its
	// slot: long enough for nodes that come late, and for store clocks that
	// differ after a failover.
	keepSlots = 2
	keepMin   = 10 * time.Minute

	// maxSlack bounds the default of Slack.
	maxSlack = 10 * time.Second
)

// jobSlot is one period of a job, from its start until before its end.
type jobSlot struct{ start, end time.Time }

// jobSchedule divides time into slots.
type jobSchedule interface {
	// at returns the slot of an instant.
	at(now time.Time) (jobSlot, error)
}

// name returns the resource name of a job's run in this slot.
func (s jobSlot) name(job string) string { return job + "@" + s.start.UTC().Format(time.RFC3339Nano) }

// longestSlotName is the maximum length of what name adds.
const longestSlotName = len("@2006-01-02T15:04:05.999999999Z")

// keep returns how long the mark of the slot lasts.
func (s jobSlot) keep(atLeast time.Duration) time.Duration {
	return min(max(keepSlots*s.end.Sub(s.start), keepMin, atLeast), MaxKeep)
}

// slot returns the slot of a Run that begins now.
func (o *jobOptions) slot(now time.Time) (jobSlot, error) {
	s, err := o.schedule.at(now)
	if err != nil {
		return s, err
	}
	length := s.end.Sub(s.start)
	slack := min(maxSlack, length/10)
	if o.slack != nil {
		slack = min(*o.slack, length/2)
	}
	if s.end.Sub(now) > slack {
		return s, nil
	}
	// The mark of an early run begins early too: it must outlive the slot.
	next, err := o.schedule.at(s.end)
	if err != nil || s.end.Sub(now) > next.end.Sub(next.start)/2 {
		return s, err
	}
	return next, nil
}

// every is a schedule of equal slots, counted from the year 1, which began on a
// Monday, so that slots of an hour, a day and a week begin as those of the
// calendar do, in UTC.
type every time.Duration

func (d every) at(now time.Time) (jobSlot, error) {
	start := now.UTC().Truncate(time.Duration(d))
	return jobSlot{start, start.Add(time.Duration(d))}, nil
}

// cron is a schedule of slots that begin when the expression is due in the zone.
type cron struct {
	expr string
	zone *time.Location
}

// errNeverDue: the expression is well formed but matches no day.
var errNeverDue = errors.New("is never due")

// at finds the last due time up to now and the first one after it. gronx computes
// with wall times in UTC, which has no daylight saving time, and instant converts.
func (c cron) at(now time.Time) (jobSlot, error) {
	local := now.In(c.zone)
	_, offset := local.Zone()
	wall := local.UTC().Add(time.Duration(offset) * time.Second)
	due, err := gronx.PrevTickBefore(c.expr, wall, true)
	for err == nil && c.instant(due).After(now) {
		due, err = gronx.PrevTickBefore(c.expr, due, false)
	}
	start := c.instant(due)
	end := start
	for err == nil && !end.After(now) {
		start = end
		due, err = gronx.NextTickAfter(c.expr, due, false)
		end = c.instant(due)
	}
	if err != nil {
		return jobSlot{}, optionError("cron expression %q %v", c.expr, errNeverDue)
	}
	return jobSlot{start, end}, nil
}

// instant returns the instant at which the zone's clock first shows the minute of
// wall or, if the clock skips that minute, at which it is set forward.
func (c cron) instant(wall time.Time) time.Time {
	t := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), 0, 0, c.zone)
	from, until := t.ZoneBounds()
	shown := time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
	switch wall = wall.Truncate(time.Minute); {
	case shown.After(wall):
		return from.UTC()
	case shown.Before(wall):
		return until.UTC()
	case from.IsZero():
		return t.UTC()
	}
	_, before := from.Add(-1).Zone()
	_, after := t.Zone()
	if first := t.Add(time.Duration(after-before) * time.Second); after < before && first.Before(from) {
		return first.UTC()
	}
	return t.UTC()
}

// cronOf checks an expression.
func cronOf(expr string) (cron, error) {
	fields := strings.Fields(expr)
	tag := len(fields) == 1 && strings.HasPrefix(fields[0], "@") && fields[0] != "@everysecond"
	if len(fields) != 5 && !tag || !gronx.IsValid(expr) {
		return cron{}, optionError(`cron expression %q: use five fields, "minute hour day month weekday", or @hourly, @daily, @weekly, @monthly, @yearly`, expr)
	}
	// Any instant shows whether it is ever due.
	c := cron{expr, time.UTC}
	_, err := c.at(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC))
	return c, err
}
