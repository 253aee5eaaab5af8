package web

import (
	"context"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/describe"
)

const (
	// clockTimeout bounds the first call of a reading, so that a store that does not answer is
	// noticed soon; listTimeout bounds the list, which takes long if there are many resources.
	clockTimeout = 2 * time.Second
	listTimeout  = 30 * time.Second
	// keepTrips is how many of the latest are kept.
	keepTrips = 120
)

// listing is everything in use, as one reading found it.
type listing struct {
	clockAt
	rows   []*row
	totals totals
	charts []chart // of the last hour
}

// clockAt is the time of the store's clock.
type clockAt struct {
	now    time.Time
	trip   time.Duration
	offset time.Duration // from this machine's clock
}

// totals are the sums of a listing.
type totals struct {
	At         time.Time         `json:"-"`
	Resources  int               `json:"resources"`
	Leases     int               `json:"leases"`
	Waiters    int               `json:"waiters"`
	Unknown    bool              `json:"waiters_unknown,omitempty"` // as on a quorum
	States     map[condition]int `json:"states"`
	OldestWait time.Duration     `json:"-"`
	WaitMS     float64           `json:"oldest_wait_ms"`
}

// In returns how many resources are in a condition.
func (t totals) In(name string) int { return t.States[condition(name)] }

// readClock reads the store's clock, and times the call.
func (d *dashboard) readClock(ctx context.Context) (clockAt, error) {
	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()
	sent := time.Now()
	now, err := d.client.Now(ctx)
	if err != nil {
		return clockAt{}, err
	}
	trip := time.Since(sent)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trips = append(d.trips[max(0, len(d.trips)+1-keepTrips):], trip)
	return clockAt{now: now, trip: trip, offset: now.Sub(sent.Add(trip / 2))}, nil
}

func (d *dashboard) readList(ctx context.Context) (*listing, error) {
	clock, err := d.readClock(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	l := &listing{clockAt: clock}
	began := time.Now()
	for s, err := range d.client.List(ctx, "*") {
		if err != nil {
			return nil, err
		}
		now := clock.now.Add(time.Since(began))
		l.rows = append(l.rows, newRow(s, d.observer.see(s, now), now))
	}
	d.observer.forget(clock.now)
	l.totals = sum(l.rows, clock.now)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hour.add(l.rows, l.totals)
	l.charts = chartsOf(d.hour.series())
	return l, nil
}

func sum(rows []*row, now time.Time) totals {
	t := totals{At: now, Resources: len(rows), States: map[condition]int{}}
	for _, r := range rows {
		t.Leases += len(r.Holders)
		t.Waiters += len(r.Waiters)
		t.Unknown = t.Unknown || r.NoWaiters
		t.States[r.Condition]++
		t.OldestWait = max(t.OldestWait, r.OldestWait)
	}
	t.WaitMS = describe.Milliseconds(t.OldestWait)
	return t
}

// watched is one resource that somebody looks at.
type watched struct {
	latest latest[*sole]
	used   time.Time
}

// sole is one resource as one reading found it.
type sole struct {
	clockAt
	row *row
}

const (
	// unwatchedAfter is when a resource that nobody looks at any more is dropped.
	unwatchedAfter = time.Minute
	// maxWatched bounds how many are kept: the one that was not looked at for longest is dropped.
	maxWatched = 500
	// maxSoles bounds how many readings of one resource are under way at a time.
	maxSoles = 8
)

// one returns the shared reading of a resource. It fails if the name is none.
func (d *dashboard) one(name string) (*latest[*sole], error) {
	switch {
	case name == "":
		return nil, fmt.Errorf("%w: the address has no name of a resource", errBadRequest)
	case len(name) > holdfast.MaxNameLen:
		return nil, fmt.Errorf("%w: the name has %d bytes, and at most %d are allowed", errBadRequest, len(name), holdfast.MaxNameLen)
	case !utf8.ValidString(name):
		return nil, fmt.Errorf("%w: the name %q is not UTF-8", errBadRequest, name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if w := d.resources[name]; w != nil {
		w.used = now
		return &w.latest, nil
	}
	oldest := ""
	for other, w := range d.resources {
		if now.Sub(w.used) > unwatchedAfter {
			delete(d.resources, other)
		} else if oldest == "" || w.used.Before(d.resources[oldest].used) {
			oldest = other
		}
	}
	if len(d.resources) >= maxWatched {
		delete(d.resources, oldest)
	}
	w := &watched{latest: latest[*sole]{every: time.Second, read: func(ctx context.Context) (*sole, error) { return d.readOne(ctx, name) }}, used: now}
	d.resources[name] = w
	return &w.latest, nil
}

func (d *dashboard) readOne(ctx context.Context, name string) (*sole, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	select {
	case d.soles <- struct{}{}:
		defer func() { <-d.soles }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%d readings of other resources are under way: %w", maxSoles, ctx.Err())
	}
	clock, err := d.readClock(ctx)
	if err != nil {
		return nil, err
	}
	s, err := d.client.Snapshot(ctx, name)
	if err != nil {
		return nil, err
	}
	s.Resource = name // also of one that is not in use
	d.observer.forget(clock.now)
	return &sole{clockAt: clock, row: newRow(s, d.observer.see(s, clock.now), clock.now)}, nil
}

// readMarks lists the runs of jobs with a schedule: their names have an '@'. What was done once,
// which may be millions, has no such name.
func (d *dashboard) readMarks(ctx context.Context) ([]holdfast.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var out []holdfast.Snapshot
	for s, err := range d.client.Marks(ctx, "*@*") {
		if err != nil {
			return nil, err
		}
		if out = append(out, s); len(out) == maxMarks {
			break
		}
	}
	return out, nil
}

// maxMarks bounds how many marks are read.
const maxMarks = 5000

// examineTimeout bounds an examination.
const examineTimeout = 30 * time.Second

func (d *dashboard) readFindings(ctx context.Context) ([]Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	return d.examine(ctx)
}
