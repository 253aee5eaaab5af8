package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/describe"
)

// storePage is what is known of the store itself.
type storePage struct {
	Now        time.Time
	Offset     time.Duration
	Trips      int
	Median     time.Duration
	Slowest    time.Duration
	Totals     totals
	Examines   bool
	Findings   []Finding
	Counts     map[string]int
	Examined   freshness
	Unexamined string // why there are no findings
}

// FarOff reports whether the store's clock differs from this machine's.
func (p storePage) FarOff() bool { return p.Offset.Abs() > time.Second }

func (d *dashboard) loadStore(ctx context.Context, _ *http.Request) (content, error) {
	got, err := d.list.get(ctx)
	if err != nil {
		return content{}, err
	}
	page := storePage{Examines: d.examine != nil, Counts: map[string]int{}}
	if l := got.value; got.ok {
		page.Now, page.Offset, page.Totals = l.now, l.offset, l.totals
	}
	page.Trips, page.Median, page.Slowest = d.roundTrips()
	var part error
	if d.examine != nil {
		found, err := d.findings.get(ctx)
		if err != nil {
			return content{}, err
		}
		page.Findings, page.Examined = found.value, found.freshness()
		if found.err != nil {
			page.Unexamined, part = found.err.Error(), fmt.Errorf("the examination: %w", found.err)
		}
	}
	for _, f := range page.Findings {
		page.Counts[f.Status]++
	}
	out := jsonStore{
		StoreTime: page.Now.UTC(), Offset: describe.Milliseconds(page.Offset), Median: describe.Milliseconds(page.Median),
		Slowest: describe.Milliseconds(page.Slowest), Totals: page.Totals, Findings: orEmpty(page.Findings), Version: jsonVersion,
	}
	return content{body: page, json: out, fresh: got.freshness(), part: part}, nil
}

// roundTrips returns how many of the latest are known, their median and the longest.
func (d *dashboard) roundTrips() (n int, median, slowest time.Duration) {
	d.mu.Lock()
	all := slices.Clone(d.trips)
	d.mu.Unlock()
	if len(all) == 0 {
		return 0, 0, 0
	}
	slices.Sort(all)
	return len(all), all[len(all)/2], all[len(all)-1]
}
