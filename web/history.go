package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/describe"
)

const (
	// maxEvents is how many events of a history are read: the newest.
	maxEvents = 5000
	// historyTimeout bounds the reading.
	historyTimeout = 5 * time.Second
	// eventsOfOne is how many events the page of a resource shows.
	eventsOfOne = 50
)

// past is the newest events that clients have recorded, newest first.
type past struct {
	events []holdfast.HistoryEvent
	off    bool // the store keeps no history
}

// readHistory reads the newest events.
func (d *dashboard) readHistory(ctx context.Context) (past, error) {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	var p past
	for e, err := range d.client.History(ctx, holdfast.HistoryQuery{Newest: true}) {
		switch {
		case errors.Is(err, holdfast.ErrInvalid):
			return past{off: true}, nil
		case err != nil:
			return past{}, err
		}
		if p.events = append(p.events, e); len(p.events) == maxEvents {
			break
		}
	}
	slices.SortStableFunc(p.events, func(a, b holdfast.HistoryEvent) int { return b.At.Compare(a.At) })
	return p, nil
}

// eventKinds are the values of the parameter event.
func eventKinds() []holdfast.HistoryKind {
	return []holdfast.HistoryKind{
		holdfast.HistoryGranted, holdfast.HistoryReleased, holdfast.HistoryDetached, holdfast.HistoryLost, holdfast.HistoryWithdrawn, holdfast.HistoryBroke, holdfast.HistoryDropped,
	}
}

// selectEvents returns the events that a list shows, in their order.
func (p past) selectEvents(q listQuery) []holdfast.HistoryEvent {
	words := strings.Fields(strings.ToLower(q.Text))
	var out []holdfast.HistoryEvent
	for _, e := range p.events {
		if q.Name != "" && e.Resource != q.Name || q.Event != "" && string(e.Event) != q.Event {
			continue
		}
		text := ""
		if len(words) > 0 {
			text = strings.ToLower(e.Resource + "\n" + processText(e.Name, e.Client.Host, e.Client.PID) + "\n" + e.Cause)
		}
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			out = append(out, e)
		}
	}
	return out
}

// historyPage is what was recorded.
type historyPage struct {
	paging
	Events []holdfast.HistoryEvent
	Kinds  []holdfast.HistoryKind
	Total  int
	Off    bool      // the store keeps no history
	Oldest time.Time // of the events that were read, if there may be older ones
}

type jsonHistory struct {
	Off     bool                 `json:"off,omitempty"`
	Total   int                  `json:"events_total"`
	Oldest  *time.Time           `json:"read_back_to,omitempty"`
	Matched int                  `json:"matched"`
	Page    int                  `json:"page"`
	Pages   int                  `json:"pages"`
	Events  []describe.JSONEvent `json:"events"`
	Version int                  `json:"version"`
}

func (d *dashboard) loadHistory(ctx context.Context, r *http.Request) (content, error) {
	got, err := d.history.get(ctx)
	if err != nil {
		return content{}, err
	}
	q := queryOf(r.URL.Query())
	page := historyPage{paging: paging{listQuery: q}, Kinds: eventKinds(), Total: len(got.value.events), Off: got.value.off}
	page.Events, page.paging = cut(got.value.selectEvents(q), q)
	out := jsonHistory{Off: page.Off, Total: page.Total, Matched: page.Matched, Page: page.Page, Pages: page.Pages, Events: toJSONEvents(page.Events), Version: jsonVersion}
	if page.Total == maxEvents {
		page.Oldest = got.value.events[maxEvents-1].At.UTC()
		out.Oldest = &page.Oldest
	}
	return content{body: page, json: out, fresh: got.freshness()}, nil
}

func toJSONEvents(events []holdfast.HistoryEvent) []describe.JSONEvent {
	out := make([]describe.JSONEvent, 0, len(events))
	for _, e := range events {
		out = append(out, describe.ToJSONEvent(e))
	}
	return out
}

// timeline is what was recorded of one resource.
type timeline struct {
	Events  []holdfast.HistoryEvent
	More    int    // that the history page shows
	Trouble string // why it could not be read
}

// timelineOf reads the timeline of a resource. If that fails the rest of its page is shown all the same.
func (d *dashboard) timelineOf(ctx context.Context, name string) (timeline, error) {
	got, err := d.history.get(ctx)
	if err != nil {
		return timeline{}, err
	}
	var t timeline
	if got.err != nil {
		t.Trouble = got.err.Error()
	}
	t.Events = got.value.selectEvents(listQuery{Name: name})
	t.More = max(0, len(t.Events)-eventsOfOne)
	t.Events = t.Events[:len(t.Events)-t.More]
	return t, nil
}

// formatSpan writes how long something took, also if that is short.
func formatSpan(d time.Duration) string {
	if d < time.Second {
		return formatTrip(d)
	}
	return formatLeft(d)
}

// eventState is the state whose color an event has.
func eventState(e holdfast.HistoryKind) string {
	return cmp.Or(map[holdfast.HistoryKind]string{
		holdfast.HistoryGranted: "held", holdfast.HistoryDetached: "held", holdfast.HistoryReleased: "done", holdfast.HistoryWithdrawn: "waiting", holdfast.HistoryBroke: "breaking",
	}[e], "overdue")
}
