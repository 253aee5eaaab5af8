package web

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/describe"
)

const jsonVersion = describe.JSONVersion

// wantsJSON reports whether the answer to a request is JSON.
func wantsJSON(r *http.Request) bool {
	return strings.HasPrefix(strings.TrimPrefix(r.URL.Path, "/"), "api/")
}

// serveAPI serves the content of a page as JSON. What a page shows as stale is an error here: 503.
func (d *dashboard) serveAPI(w http.ResponseWriter, r *http.Request, where string) {
	v, ok := apiAt(where)
	if !ok {
		d.serveError(w, r, http.StatusNotFound, errors.New("there is no such address; see docs/DASHBOARD.md for those that there are"))
		return
	}
	c, err := v.load(d, r.Context(), r)
	if err != nil {
		d.serveLoadError(w, r, err)
		return
	}
	if c.fresh.Error != "" {
		err = errors.New(c.fresh.Error)
	}
	if err = cmp.Or(err, c.part); err != nil {
		d.serveError(w, r, http.StatusServiceUnavailable, err)
		return
	}
	writeJSON(w, http.StatusOK, c.json)
}

// apiAt returns what an address of the API serves: that of a page, or the charts of one.
func apiAt(where string) (pageSpec, bool) {
	switch where {
	case "resources":
		return viewAt("")
	case "charts":
		return pageSpec{path: where, load: (*dashboard).loadCharts}, true
	}
	return viewAt(where)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // nobody reads the answer any more
}

type jsonFailure struct {
	Error   string `json:"error"`
	Version int    `json:"version"`
}

// jsonRow is a resource: what holdfast ls --json prints, and what follows from it.
type jsonRow struct {
	describe.JSONSnapshot
	State      condition `json:"state"`
	Held       float64   `json:"held_ms,omitempty"`
	OldestWait float64   `json:"oldest_wait_ms,omitempty"`
	Growth     int       `json:"waiters_growth,omitempty"`
	GrowthSpan float64   `json:"waiters_growth_ms,omitempty"`
}

func toJSONRow(r *row) jsonRow {
	out := jsonRow{
		JSONSnapshot: describe.ToJSON(r.Snapshot), State: r.Condition,
		Held: describe.Milliseconds(r.Held), OldestWait: describe.Milliseconds(r.OldestWait),
	}
	if r.growth != 0 {
		out.Growth, out.GrowthSpan = r.growth, describe.Milliseconds(r.span)
	}
	return out
}

type jsonChange struct {
	change
	After float64 `json:"after_ms,omitempty"`
}

type jsonList struct {
	StoreTime time.Time `json:"store_time"`
	TookMS    float64   `json:"took_ms"`
	Totals    totals    `json:"totals"`
	Matched   int       `json:"matched"`
	Page      int       `json:"page"`
	Pages     int       `json:"pages"`
	Resources []jsonRow `json:"resources"`
	Version   int       `json:"version"`
}

type jsonClients struct {
	StoreTime time.Time    `json:"store_time"`
	Total     int          `json:"clients_total"`
	Matched   int          `json:"matched"`
	Page      int          `json:"page"`
	Pages     int          `json:"pages"`
	Clients   []jsonClient `json:"clients"`
	Version   int          `json:"version"`
}

type jsonClient struct {
	ID           string  `json:"id"`
	Name         string  `json:"name,omitempty"`
	Host         string  `json:"host,omitempty"`
	PID          int     `json:"pid,omitempty"`
	Leases       []stake `json:"leases"`
	Waits        []stake `json:"waits"`
	Overdue      int     `json:"overdue,omitempty"`
	LongestLease float64 `json:"longest_lease_ms,omitempty"`
	LongestWait  float64 `json:"longest_wait_ms,omitempty"`
}

type jsonJobs struct {
	StoreTime time.Time         `json:"store_time"`
	Elections []jsonElectionRow `json:"elections"`
	Matched   int               `json:"matched"`
	Page      int               `json:"page"`
	Pages     int               `json:"pages"`
	Jobs      []jsonJob         `json:"jobs"`
	Version   int               `json:"version"`
}

type jsonElectionRow struct {
	Name       string       `json:"name"`
	Leader     *jsonElected `json:"leader"`     // null: there is none
	Candidates *int         `json:"candidates"` // null: not known, as on a quorum
}

type jsonElected struct {
	Value   string    `json:"value"`
	Process string    `json:"process"`
	Token   uint64    `json:"token"`
	Since   time.Time `json:"since"`
}

func toJSONElection(r *row) jsonElectionRow {
	out := jsonElectionRow{Name: r.Resource}
	if n := len(r.Waiters); !r.NoWaiters {
		out.Candidates = &n
	}
	if h := r.First(); h != nil {
		out.Leader = &jsonElected{h.Reason, processText(h.Name, h.Host, h.PID), h.Token, h.Since.UTC()}
	}
	return out
}

type jsonJob struct {
	Name string     `json:"name"`
	Next *time.Time `json:"next,omitempty"`
	Runs []jsonRun  `json:"runs"`
	jsonRun
}

type jsonRun struct {
	Resource string     `json:"resource"`
	Slot     time.Time  `json:"slot"`
	State    string     `json:"state"`
	Process  string     `json:"process,omitempty"`
	Since    *time.Time `json:"since,omitempty"`
	MarkedMS float64    `json:"marked_ms,omitempty"`
}

func toJSONJob(j jobRow) jsonJob {
	out := jsonJob{Name: j.Name, jsonRun: toJSONRun(j.run)}
	for _, r := range j.Runs {
		out.Runs = append(out.Runs, toJSONRun(r))
	}
	if !j.Next.IsZero() {
		next := j.Next.UTC()
		out.Next = &next
	}
	return out
}

func toJSONRun(r run) jsonRun {
	out := jsonRun{Resource: r.Resource, Slot: r.Slot.UTC(), State: r.State(), MarkedMS: describe.Milliseconds(r.Left)}
	if r.By.ID != "" {
		since := r.By.Since.UTC()
		out.Process, out.Since = processText(r.By.Name, r.By.Host, r.By.PID), &since
	}
	return out
}

type jsonStore struct {
	StoreTime time.Time `json:"store_time"`
	Offset    float64   `json:"clock_offset_ms"`
	Median    float64   `json:"round_trip_median_ms"`
	Slowest   float64   `json:"round_trip_max_ms"`
	Totals    totals    `json:"totals"`
	Findings  []Finding `json:"findings"`
	Version   int       `json:"version"`
}
