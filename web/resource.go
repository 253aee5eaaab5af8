package web

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/describe"
)

// maxParties is how many holders and how many waiters a page shows. The API has all.
const maxParties = 500

// resourcePage is one resource.
type resourcePage struct {
	*row
	Now        time.Time
	Advice     []string
	MayBreak   bool
	Holders    []holdfast.Holder
	Waiters    []holdfast.Waiter
	Dead       []holdfast.Waiter
	MoreHold   int
	MoreWait   int
	MoreDead   int
	Broken     bool // an operator has just broken something here
	WeightName string
	Recorded   timeline
}

// HeldFor returns how long a lease has lasted.
func (p resourcePage) HeldFor(h holdfast.Holder) time.Duration { return p.Now.Sub(h.Since) }

// Waited returns how long a wait has lasted.
func (p resourcePage) Waited(w holdfast.Waiter) time.Duration { return p.Now.Sub(w.Since) }

func (d *dashboard) loadResource(ctx context.Context, r *http.Request) (content, error) {
	name := r.URL.Query().Get("name")
	reading, err := d.one(name)
	if err != nil {
		return content{}, err
	}
	got, err := reading.get(ctx)
	if err != nil {
		return content{}, err
	}
	page := resourcePage{row: &row{Snapshot: holdfast.Snapshot{Resource: name}, Condition: isFree}, Broken: r.URL.Query().Has("broken")}
	if got.ok {
		page.row, page.Now = got.value.row, got.value.now
	}
	page.MayBreak = d.authorize != nil && !page.latch()
	page.Holders, page.Waiters, page.Dead = page.Snapshot.Holders, page.Snapshot.Waiters, page.Snapshot.Dead
	page.MoreHold = max(0, len(page.Holders)-maxParties)
	page.MoreWait = max(0, len(page.Waiters)-maxParties)
	page.MoreDead = max(0, len(page.Dead)-maxParties)
	page.Holders, page.Waiters = page.Holders[:len(page.Holders)-page.MoreHold], page.Waiters[:len(page.Waiters)-page.MoreWait]
	page.Dead = page.Dead[:len(page.Dead)-page.MoreDead]
	page.WeightName = "Weight"
	if describe.Mode(page.Snapshot, page.Capacity) != "" {
		page.WeightName = "Mode"
	}
	page.Advice = advice(page.row, page.Now)
	if page.Recorded, err = d.timelineOf(ctx, name); err != nil {
		return content{}, err
	}
	out := struct {
		jsonRow
		StoreTime time.Time            `json:"store_time"`
		Changes   []jsonChange         `json:"changes"`
		Recorded  []describe.JSONEvent `json:"history"`
		Trouble   string               `json:"history_error,omitempty"`
	}{toJSONRow(page.row), page.Now.UTC(), []jsonChange{}, toJSONEvents(page.Recorded.Events), page.Recorded.Trouble}
	for _, c := range page.Changes() {
		out.Changes = append(out.Changes, jsonChange{c, describe.Milliseconds(c.After)})
	}
	return content{body: page, json: out, fresh: got.freshness(), title: describe.Text(name)}, nil
}

// advice says what the state of a resource means and what to do about it.
func advice(r *row, now time.Time) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, h := range r.Holders {
		if len(out) == 3 {
			break
		}
		who := processText(h.Name, h.Host, h.PID)
		switch {
		case h.Breaking:
			say("The lease of %s is broken. The resource passes on when that process has released it, at the latest in %s.", who, formatLeft(h.TTL))
		case r.Overdue(h):
			say("%s has not renewed its lease: it is paused, cut off from the store or dead, or it does not renew. Unless it renews, the lease ends by itself in %s; nothing needs to be broken.", who, formatLeft(h.TTL))
		}
	}
	switch first := r.First(); {
	case len(out) > 0:
	case r.Condition == isContended && engine.Kind(r.Kind) == engine.KindElection:
		say("%s leads; the others are candidates that take over if it ends.", processText(first.Name, first.Host, first.PID))
	case r.Condition == isContended:
		who := processText(first.Name, first.Host, first.PID)
		say("%s renews its lease, so its process lives. If the work should have ended by now, look at that process: its stack or its log says what it waits for.", who)
		say("A break ends the renewal and cancels the work; the next waiter gets the resource when it is released, at the latest in %s.", formatLeft(first.TTL))
	case r.Condition == isWaiting:
		say("Nobody holds it, and somebody waits: a waiter claims it within about a second, or the waiters ask for more than is free.")
	case r.Condition == isMarked:
		say("It is marked as done for another %s: work of a Once or a Job, or a latch that is open. Until then nothing is granted.", formatAge(r.Marked))
	case r.Condition == isFree:
		say("Nobody holds it and nobody waits for it.")
	}
	if r.Growth() > 0 && r.Span() > 0 {
		say("The queue has grown by %d in %s.", r.Growth(), formatAge(r.Span()))
	}
	return out
}
