package holdfast

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Go's monotonic clock stops while the machine is suspended, and the wall clock may be set.
// The later of the two counts.
func TestAReadingOfTheStoresClockGoesOnDuringASuspend(t *testing.T) {
	c := opened(t)
	for name, tt := range map[string]struct{ mono, wall, want time.Duration }{
		"both run":           {time.Minute, time.Minute, time.Minute},
		"suspended":          {time.Second, time.Hour, time.Hour},
		"wall clock is back": {time.Minute, -time.Hour, time.Minute},
	} {
		store := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		now := storeClock{clock: c.keep.Clock, store: store, sent: c.keep.Now()}
		now.sent.Mono -= tt.mono
		now.sent.Wall -= int64(tt.wall)
		if got := now.read().Sub(store); got < tt.want || got > tt.want+time.Minute {
			t.Errorf("%s: %v have passed, want %v", name, got, tt.want)
		}
	}
}

// In a slot so long that its mark ends before it, the end of the slot does not show that an
// earlier run may be forgotten.
func TestNoRunOnceTheMarkOfAnEarlierRunMayHaveEnded(t *testing.T) {
	const year = 365 * 24 * time.Hour
	c, ctx := opened(t), context.Background()
	now, err := c.readClock(ctx, "report")
	if err != nil {
		t.Fatal(err)
	}
	for began, runs := range map[time.Duration]bool{5 * year: true, 7 * year: false} {
		start := now.store.Add(-began)
		ran, err := c.Job("report", Every(time.Hour)).run(ctx, now, jobSlot{start, start.Add(8 * year)}, func(context.Context) error { return nil })
		if ran != runs || errors.Is(err, ErrNotAcquired) == runs {
			t.Errorf("%v after the slot began: ran %v, %v", began, ran, err)
		}
	}
}
