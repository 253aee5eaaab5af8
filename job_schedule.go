package holdfast

import (
	"errors"
	"strings"
	"time"

	"github.com/adhocore/gronx"
)

// Limits of the periods of a job.
const (
	// MinPeriod and MaxPeriod bound Every.
	MinPeriod = 100 * time.Millisecond
	MaxPeriod = 366 * 24 * time.Hour

	// keepSlots and keepMin say how long a mark outlives the beginning of its
	// slot: long enough for nodes that come late, and for store clocks that
	// differ after a failover.
	keepSlots = 2
	keepMin   = 10 * time.Minute
)

// slot is one period of a job, from its start until before its end.
type jobSlot struct{ start, end time.Time }

// schedule divides time into slots.
type jobSchedule interface {
	// at returns the slot of an instant.
	at(now time.Time) (jobSlot, error)
}

// name is the resource of a job's run in this slot.
func (s jobSlot) name(job string) string { return job + "@" + s.start.UTC().Format(time.RFC3339Nano) }

// longestSlotName is what name adds at most.
const longestSlotName = len("@2006-01-02T15:04:05.999999999Z")

// keep is how long the mark of the slot lasts.
func (s jobSlot) keep(atLeast time.Duration) time.Duration {
	return min(max(keepSlots*s.end.Sub(s.start), keepMin, atLeast), MaxKeep)
}

// every is a schedule of equal slots, counted from year 1, which began on a
// Monday: so hours, days and weeks begin where people expect it, in UTC.
type every time.Duration

func (d every) at(now time.Time) (jobSlot, error) {
	start := now.UTC().Truncate(time.Duration(d))
	return jobSlot{start, start.Add(time.Duration(d))}, nil
}

// cron is a schedule of slots that begin when the expression is due, in UTC.
type cron string

// errNeverDue: the expression is well formed, but no day fits it.
var errNeverDue = errors.New("is never due")

func (expr cron) at(now time.Time) (jobSlot, error) {
	now = now.UTC()
	start, err := gronx.PrevTickBefore(string(expr), now, true)
	if err != nil {
		return jobSlot{}, optionError("cron expression %q %v (%v)", string(expr), errNeverDue, err)
	}
	end, err := gronx.NextTickAfter(string(expr), now, false)
	if err != nil {
		return jobSlot{}, optionError("cron expression %q %v (%v)", string(expr), errNeverDue, err)
	}
	return jobSlot{start.Truncate(time.Minute), end.Truncate(time.Minute)}, nil
}

// cronOf checks an expression.
func cronOf(expr string) (cron, error) {
	fields := strings.Fields(expr)
	tag := len(fields) == 1 && strings.HasPrefix(fields[0], "@") && fields[0] != "@everysecond"
	if len(fields) != 5 && !tag || !gronx.IsValid(expr) {
		return "", optionError(`cron expression %q: use five fields, "minute hour day month weekday", or @hourly, @daily, @weekly, @monthly, @yearly`, expr)
	}
	// Any instant shows whether it is due at all; the clock is looked at later.
	_, err := cron(expr).at(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC))
	return cron(expr), err
}
