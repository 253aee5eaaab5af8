package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
)

// jobsPage is the elections and the jobs with a schedule.
type jobsPage struct {
	paging
	Elections []*row
	Jobs      []jobRow
	NoMarks   bool // the store does not list marks
	MarkError string
	Truncated bool
	Now       time.Time
}

// jobRow is a job with the latest of its runs.
type jobRow struct {
	Name string
	run
	Runs  []run     // the newest, of which the first is run; at most maxRuns
	Known int       // runs that the store still remembers
	Next  time.Time // expected start of the next slot; zero: not known
}

// maxRuns is how many runs of a job are shown.
const maxRuns = 5

// run is one slot of a job.
type run struct {
	Resource string
	Slot     time.Time
	Running  bool
	Waiting  int // nodes that wait for the end of the run
	Done     bool
	By       holdfast.Holder // who runs it or has run it; zero: not known
	Left     time.Duration   // of the mark
}

// slotOf splits the name of a slot's resource.
func slotOf(resource string) (job string, slot time.Time, ok bool) {
	i := strings.LastIndexByte(resource, '@')
	if i < 0 {
		return "", time.Time{}, false
	}
	slot, err := time.Parse(time.RFC3339Nano, resource[i+1:])
	return resource[:i], slot, err == nil
}

// jobsOf groups the slots that are marked or in use by job.
func jobsOf(marks []holdfast.Snapshot, rows []*row) []jobRow {
	runs := map[string]map[time.Time]run{}
	put := func(s holdfast.Snapshot, change func(*run)) {
		job, slot, ok := slotOf(s.Resource)
		if !ok || s.Kind != string(engine.KindJob) {
			return
		}
		if runs[job] == nil {
			runs[job] = map[time.Time]run{}
		}
		r := runs[job][slot]
		r.Resource, r.Slot = s.Resource, slot
		change(&r)
		runs[job][slot] = r
	}
	for _, s := range marks {
		put(s, func(r *run) { r.Done, r.By, r.Left = true, s.MarkedBy, s.Marked })
	}
	for _, one := range rows {
		put(one.Snapshot, func(r *run) {
			if h := one.First(); h != nil {
				r.Running, r.By = true, *h
			}
			r.Waiting = len(one.Waiters)
		})
	}
	var out []jobRow
	for name, slots := range runs {
		all := make([]run, 0, len(slots))
		for _, r := range slots {
			all = append(all, r)
		}
		slices.SortFunc(all, func(a, b run) int { return b.Slot.Compare(a.Slot) })
		j := jobRow{Name: name, run: all[0], Runs: all[:min(len(all), maxRuns)], Known: len(all)}
		if len(all) > 1 { // the slots of a cron expression are not evenly apart
			j.Next = all[0].Slot.Add(all[0].Slot.Sub(all[1].Slot))
		}
		out = append(out, j)
	}
	slices.SortFunc(out, func(a, b jobRow) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// State describes the run in a word.
func (r run) State() string {
	switch {
	case r.Running:
		return "running"
	case r.Done:
		return "done"
	}
	return "waiting"
}

func (d *dashboard) loadJobs(ctx context.Context, r *http.Request) (content, error) {
	got, err := d.list.get(ctx)
	if err != nil {
		return content{}, err
	}
	marks, err := d.marks.get(ctx)
	if err != nil {
		return content{}, err
	}
	q := queryOf(r.URL.Query())
	page := jobsPage{paging: paging{listQuery: q}, NoMarks: errors.Is(marks.err, holdfast.ErrInvalid), Truncated: len(marks.value) == maxMarks}
	var part error
	if marks.err != nil && !page.NoMarks {
		page.MarkError, part = marks.err.Error(), fmt.Errorf("the marks: %w", marks.err)
	}
	out := jsonJobs{Elections: []jsonElectionRow{}, Jobs: []jsonJob{}, Version: jsonVersion}
	if l := got.value; got.ok {
		page.Now, out.StoreTime = l.now, l.now.UTC()
		page.Elections = selectRows(l.rows, listQuery{Kind: string(engine.KindElection), Sort: "name"})
		page.Jobs, page.paging = cut(jobsOf(marks.value, l.rows), q)
		for _, e := range page.Elections {
			out.Elections = append(out.Elections, toJSONElection(e))
		}
		for _, j := range page.Jobs {
			out.Jobs = append(out.Jobs, toJSONJob(j))
		}
		out.Matched, out.Page, out.Pages = page.Matched, page.Page, page.Pages
	}
	return content{body: page, json: out, fresh: got.freshness(), part: part}, nil
}
