package holdfast

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/random"
)

func at(t testing.TB, text string) time.Time {
	t.Helper()
	d, err := time.Parse(time.DateTime, text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSlots(t *testing.T) {
	for _, tc := range []struct {
		of              jobSchedule
		now, start, end string
	}{
		{every(time.Hour), "2026-11-20 13:59:59", "2026-11-20 13:00:00", "2026-11-20 14:00:00"},
		{every(time.Hour), "2026-11-20 14:00:00", "2026-11-20 14:00:00", "2026-11-20 15:00:00"},
		{every(24 * time.Hour), "2026-11-20 14:00:00", "2026-11-20 00:00:00", "2026-11-21 00:00:00"},
		{every(7 * 24 * time.Hour), "2026-11-20 14:00:00", "2026-11-16 00:00:00", "2026-11-23 00:00:00"}, // a Monday
		{cron{"0 8 * * *", time.UTC}, "2026-11-20 07:59:59", "2026-11-19 08:00:00", "2026-11-20 08:00:00"},
		{cron{"0 8 * * *", time.UTC}, "2026-11-20 08:00:00", "2026-11-20 08:00:00", "2026-11-21 08:00:00"},
		{cron{"30 9 * * MON-FRI", time.UTC}, "2026-11-21 12:00:00", "2026-11-20 09:30:00", "2026-11-23 09:30:00"},
		{cron{"0 0 29 2 *", time.UTC}, "2026-11-20 12:00:00", "2024-02-29 00:00:00", "2028-02-29 00:00:00"},
		{cron{"@daily", time.UTC}, "2026-11-20 12:00:00", "2026-11-20 00:00:00", "2026-11-21 00:00:00"},
		{cron{"*/15 * * * *", time.UTC}, "2026-11-20 12:44:59", "2026-11-20 12:30:00", "2026-11-20 12:45:00"},
	} {
		for _, zone := range []*time.Location{time.UTC, time.FixedZone("east", 5*3600+1800)} {
			s, err := tc.of.at(at(t, tc.now).Add(999 * time.Millisecond).In(zone))
			if err != nil || !s.start.Equal(at(t, tc.start)) || !s.end.Equal(at(t, tc.end)) {
				t.Errorf("%v at %s: %v, %v; want from %s until %s", tc.of, tc.now, s, err, tc.start, tc.end)
			}
		}
	}
}

// A zone's clock is set forward at 02:00 on 2026-03-29 and back at 03:00 on
// 2026-10-25. Each instant belongs to one slot, and each due time is due once.
func TestCronInAZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		expr, from string
		want       []string // the beginnings of slots, by the zone's clock
	}{
		{"30 2 * * *", "2026-03-28 12:00:00", []string{"28 02:30 CET", "29 03:00 CEST", "30 02:30 CEST"}},
		{"30 2 * * *", "2026-10-24 12:00:00", []string{"24 02:30 CEST", "25 02:30 CEST", "26 02:30 CET"}},
		{"0 8 * * *", "2026-03-28 12:00:00", []string{"28 08:00 CET", "29 08:00 CEST", "30 08:00 CEST"}},
		{"0 8 * * *", "2026-10-24 12:00:00", []string{"24 08:00 CEST", "25 08:00 CET", "26 08:00 CET"}},
		{"0 * * * *", "2026-03-29 00:30:00", []string{"29 01:00 CET", "29 03:00 CEST", "29 04:00 CEST"}},
		{"0 * * * *", "2026-10-24 23:30:00", []string{"25 01:00 CEST", "25 02:00 CEST", "25 03:00 CET"}},
		{"*/20 1-2 * * *", "2026-03-29 00:50:00", []string{"29 01:40 CET", "29 03:00 CEST", "30 01:00 CEST"}},
	} {
		c := cron{tc.expr, berlin}
		now := at(t, tc.from)
		for _, want := range tc.want {
			s, err := c.at(now)
			if got := s.start.In(berlin).Format("02 15:04 MST"); err != nil || got != want {
				t.Errorf("%s: at %v the slot of %s, %v; want %s", tc.expr, now, got, err, want)
			}
			for m := s.start; m.Before(s.end); m = m.Add(7 * time.Minute) {
				if same, err := c.at(m); err != nil || same != s {
					t.Fatalf("%s: at %v %v, %v; want %v", tc.expr, m, same, err, s)
				}
			}
			now = s.end
		}
	}
}

// A slot has one name, wherever and at whatever moment of it the name is made.
func TestSlotNames(t *testing.T) {
	s := jobSlot{start: at(t, "2026-11-20 14:00:00").In(time.FixedZone("east", 3600))}
	if got, want := s.name("report"), "report@2026-11-20T14:00:00Z"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	s.start = s.start.Add(123456789)
	if got := s.name(""); len(got) != longestSlotName {
		t.Errorf("%s has %d bytes, want %d", got, len(got), longestSlotName)
	}
}

func TestKeep(t *testing.T) {
	for _, tc := range []struct{ period, atLeast, want time.Duration }{
		{time.Second, 0, 10 * time.Minute},
		{time.Hour, 0, 2 * time.Hour},
		{time.Hour, 90 * time.Minute, 2 * time.Hour},
		{time.Hour, 3 * time.Hour, 3 * time.Hour},
		{6 * 365 * 24 * time.Hour, 0, MaxKeep},
	} {
		s := jobSlot{start: time.Time{}, end: time.Time{}.Add(tc.period)}
		if got := s.keep(tc.atLeast); got != tc.want {
			t.Errorf("a slot of %v is kept for %v, want %v", tc.period, got, tc.want)
		}
	}
}

func TestCronErrors(t *testing.T) {
	for _, expr := range []string{
		"", "0", "0 8 * *", "0 0 8 * * *", "0 8 * * * 2030", "60 * * * *", "x * * * *", "@never", "@everysecond",
		"0 0 31 2 *", "0 0 30 2 *",
	} {
		if _, err := cronOf(expr); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", expr, err)
		}
	}
	if _, err := cronOf("0 0 30 2 *"); !strings.HasSuffix(err.Error(), `"0 0 30 2 *" is never due`) {
		t.Error(err)
	}
	for _, expr := range []string{"0 8 * * *", "*/5 0-6,22,23 1,15 JAN-MAR *", "0 0 29 2 *", "@hourly", "@yearly", "0 0 * * 7"} {
		if _, err := cronOf(expr); err != nil {
			t.Errorf("%q: %v", expr, err)
		}
	}
}

// field is one field of an expression: its text, and the values that it matches.
type field struct {
	text string
	any  bool
	in   []int
}

func drawField(t *random.T, name string, low, high int) field {
	between := random.IntRange(low, high)
	switch random.IntRange(0, 4).Draw(t, name) {
	case 0:
		n := between.Draw(t, name)
		return field{fmt.Sprint(n), false, []int{n}}
	case 1:
		list := random.SliceOfN(between, 1, 3).Draw(t, name)
		return field{strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ","), "[]"), false, list}
	case 2:
		from := between.Draw(t, name)
		to := random.IntRange(from, high).Draw(t, name)
		f := field{text: fmt.Sprintf("%d-%d", from, to)}
		for n := from; n <= to; n++ {
			f.in = append(f.in, n)
		}
		return f
	}
	return field{"*", true, nil}
}

func (f field) has(n int) bool { return f.any || slices.Contains(f.in, n) }

// The slot of an instant is what a search minute by minute finds.
func TestCronAgainstSearch(t *testing.T) {
	random.Check(t, 100, func(t *random.T) {
		minute, hour := drawField(t, "minute", 0, 59), drawField(t, "hour", 0, 23)
		day, month, weekday := drawField(t, "day", 1, 31), drawField(t, "month", 1, 12), drawField(t, "weekday", 0, 6)
		due := func(m time.Time) bool {
			d, w := day.has(m.Day()), weekday.has(int(m.Weekday()))
			fits := d && w
			if !day.any && !weekday.any {
				fits = d || w // as cron has it
			}
			return fits && minute.has(m.Minute()) && hour.has(m.Hour()) && month.has(int(m.Month()))
		}
		now := time.Unix(random.IntRange[int64](1.7e9, 2e9).Draw(t, "now"), 0).UTC()
		expr := strings.Join([]string{minute.text, hour.text, day.text, month.text, weekday.text}, " ")
		s, err := cron{expr, time.UTC}.at(now)
		const far = 60 * 24 * 60 // minutes searched
		start, end := now.Truncate(time.Minute), now.Truncate(time.Minute).Add(time.Minute)
		for n := 0; n < far && !due(start); n++ {
			start = start.Add(-time.Minute)
		}
		for n := 0; n < far && !due(end); n++ {
			end = end.Add(time.Minute)
		}
		if due(start) && (err != nil || !s.start.Equal(start)) {
			t.Errorf("%s at %v begins at %v (%v), want %v", expr, now, s.start, err, start)
		}
		if due(end) && (err != nil || !s.end.Equal(end)) {
			t.Errorf("%s at %v ends at %v (%v), want %v", expr, now, s.end, err, end)
		}
	})
}
