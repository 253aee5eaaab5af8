package web

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
)

// policy is the Content-Security-Policy of every answer.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// Handler returns the dashboard of the client's store and prefix. It serves
// every path below the one at which it is mounted with [http.StripPrefix]. The
// client must stay open while the handler serves.
func Handler(c *holdfast.Client, opts ...Option) http.Handler {
	o := options{logger: slog.New(slog.DiscardHandler), title: "Holdfast"}
	for _, opt := range opts {
		opt(&o)
	}
	d := &dashboard{options: o, client: c, origins: http.NewCrossOriginProtection(), assets: newAssets(),
		resources: map[string]*watched{}, soles: make(chan struct{}, maxSoles)}
	d.templates = parseTemplates(d.assets)
	d.list = latest[*listing]{read: d.readList, every: time.Second}
	d.marks = latest[[]holdfast.Snapshot]{read: d.readMarks, every: 5 * time.Second}
	d.history = latest[past]{read: d.readHistory, every: 5 * time.Second}
	d.findings = latest[[]Finding]{read: d.readFindings, every: time.Minute}
	d.series = latest[[]chart]{read: d.readSeries, every: seriesEvery}
	return d
}

// dashboard is the handler.
type dashboard struct {
	options
	client    *holdfast.Client
	origins   *http.CrossOriginProtection
	assets    assets
	templates templates

	list     latest[*listing]
	marks    latest[[]holdfast.Snapshot]
	history  latest[past]
	findings latest[[]Finding]
	series   latest[[]chart]
	observer observer
	streams  atomic.Int32
	soles    chan struct{} // has one for each reading of one resource that is under way

	mu        sync.Mutex
	resources map[string]*watched // at most maxWatched
	trips     []time.Duration     // the latest round trips
	hour      hour                // of the listings
}

// ServeHTTP implements http.Handler.
func (d *dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	where := strings.TrimPrefix(r.URL.Path, "/")
	if where == "" && toFolder(w, r) {
		return
	}
	if where == "break" || where == "api/v1/break" {
		d.serveBreak(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		d.serveError(w, r, http.StatusMethodNotAllowed, errors.New("only GET and HEAD are served here"))
		return
	}
	switch {
	case where == "events":
		d.serveEvents(w, r)
	case strings.HasPrefix(where, "static/"):
		d.assets.serve(w, r, strings.TrimPrefix(where, "static/"))
	case strings.HasPrefix(where, "api/v1/"):
		d.serveAPI(w, r, strings.TrimPrefix(where, "api/v1/"))
	default:
		d.servePage(w, r, where)
	}
}

// toFolder redirects a request for the handler's root without its slash, as in
// http.Handle("/locks", http.StripPrefix("/locks", h)): relative links need the slash.
func toFolder(w http.ResponseWriter, r *http.Request) bool {
	asked, _, _ := strings.Cut(r.RequestURI, "?")
	if asked == "" || strings.HasSuffix(asked, "/") || r.Method != http.MethodGet {
		return false
	}
	to := path.Base(asked) + "/"
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", "./"+to) // http.Redirect would make it absolute, without the prefix
	w.WriteHeader(http.StatusMovedPermanently)
	return true
}

// pageSpec is a page by its path.
type pageSpec struct {
	path, title, template string
	// load returns what the page shows, which the API returns as JSON.
	load func(d *dashboard, ctx context.Context, r *http.Request) (content, error)
}

// content is what a page shows.
type content struct {
	body  any // of the template
	json  any // of the API
	fresh freshness
	part  error  // of a part that could not be read: the page shows it, the API fails
	title string // if it is not that of the view
}

// views are the pages, in the order of their links; resource has none.
func views() []pageSpec {
	return []pageSpec{
		{"", "Now", "now.html", (*dashboard).loadNow},
		{"clients", "Clients", "clients.html", (*dashboard).loadClients},
		{"jobs", "Jobs and elections", "jobs.html", (*dashboard).loadJobs},
		{"history", "History", "history.html", (*dashboard).loadHistory},
		{"store", "Store", "store.html", (*dashboard).loadStore},
		{"resource", "Resource", "resource.html", (*dashboard).loadResource},
	}
}

func viewAt(path string) (pageSpec, bool) {
	for _, v := range views() {
		if v.path == path {
			return v, true
		}
	}
	return pageSpec{}, false
}

// servePage serves one of the views.
func (d *dashboard) servePage(w http.ResponseWriter, r *http.Request, where string) {
	v, ok := viewAt(where)
	if !ok {
		d.serveError(w, r, http.StatusNotFound, errors.New("there is no such page"))
		return
	}
	c, err := v.load(d, r.Context(), r)
	if err != nil {
		d.serveLoadError(w, r, err)
		return
	}
	status := http.StatusOK
	if !c.fresh.OK {
		status = http.StatusServiceUnavailable
	}
	d.templates.page(w, status, v.template, d.frame(v, r, c))
}

// errBadRequest is the cause of an answer 400.
var errBadRequest = errors.New("bad request")

// serveLoadError answers a request for what could not be loaded.
func (d *dashboard) serveLoadError(w http.ResponseWriter, r *http.Request, err error) {
	switch {
	case r.Context().Err() != nil: // nobody reads the answer
	case errors.Is(err, errBadRequest), errors.Is(err, holdfast.ErrInvalid):
		d.serveError(w, r, http.StatusBadRequest, err)
	default:
		d.serveError(w, r, http.StatusServiceUnavailable, err)
	}
}

// serveError answers with a page, or with JSON below api/.
func (d *dashboard) serveError(w http.ResponseWriter, r *http.Request, status int, err error) {
	if wantsJSON(r) {
		writeJSON(w, status, jsonFailure{Error: err.Error(), Version: jsonVersion})
		return
	}
	v := pageSpec{path: "error", title: http.StatusText(status)}
	c := content{body: err.Error(), fresh: freshness{OK: true}}
	d.templates.page(w, status, "error.html", d.frame(v, r, c))
}
