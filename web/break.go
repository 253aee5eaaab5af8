package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/describe"
)

// breakPage is the form in which the ID of a lease or a wait is typed to break it.
type breakPage struct {
	Resource, ID string
	Reason       string        // for the party that is broken
	Party        *partyToBreak // nil: there is none with the ID
	Error        string
	Forced       bool
	Now          time.Time
}

// partyToBreak is the lease or the wait.
type partyToBreak struct {
	holdfast.Holder
	Waits bool
}

const (
	maxForm      = 16 << 10
	breakTimeout = 5 * time.Second
)

// serveBreak shows the form and breaks. Every check is made here, whatever the page showed.
func (d *dashboard) serveBreak(w http.ResponseWriter, r *http.Request) {
	if d.authorize == nil {
		d.refuse(w, r, http.StatusForbidden, errors.New("this dashboard is read-only"))
		return
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if wantsJSON(r) {
			w.Header().Set("Allow", "POST")
			d.refuse(w, r, http.StatusMethodNotAllowed, errors.New("a break is a POST"))
			return
		}
		q := r.URL.Query()
		d.serveBreakForm(w, r, http.StatusOK, breakPage{Resource: q.Get("name"), ID: q.Get("id")})
		return
	case http.MethodPost:
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		d.refuse(w, r, http.StatusMethodNotAllowed, errors.New("a break is a POST"))
		return
	}
	if err := d.origins.Check(r); err != nil {
		d.refuse(w, r, http.StatusForbidden, err)
		return
	}
	if err := d.authorize(r); err != nil {
		d.refuse(w, r, http.StatusForbidden, err)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		d.refuse(w, r, http.StatusBadRequest, err)
		return
	}
	// The name may be in the address, since a field of a form changes line ends.
	p := breakPage{Resource: r.Form.Get("name"), ID: r.Form.Get("id"), Reason: r.PostForm.Get("reason"), Forced: r.PostForm.Get("force") != ""}
	if p.Resource == "" || p.ID == "" {
		d.refuse(w, r, http.StatusBadRequest, errors.New("the form has no name or no id"))
		return
	}
	if r.PostForm.Get("typed") != p.ID {
		p.Error = "What was typed is not the ID. Nothing was broken."
		d.serveBreakForm(w, r, http.StatusUnprocessableEntity, p)
		return
	}
	d.breakParty(w, r, p)
}

// refuse answers that nothing was broken, and logs a POST.
func (d *dashboard) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	if r.Method == http.MethodPost {
		d.logger.Warn("holdfast: a break from the dashboard was refused", "cause", err, "remote", r.RemoteAddr, "user", userOf(r))
	}
	d.serveError(w, r, status, fmt.Errorf("nothing was broken: %w", err))
}

// userOf returns the name with which the request was authenticated, as far as it says so.
func userOf(r *http.Request) string {
	user, _, _ := r.BasicAuth()
	return user
}

func (d *dashboard) breakParty(w http.ResponseWriter, r *http.Request, p breakPage) {
	// A browser that leaves must not cut off a break that the store may have done.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), breakTimeout)
	defer cancel()
	s, err := d.client.Snapshot(ctx, p.Resource)
	if err != nil {
		d.refuseByStore(w, r, err)
		return
	}
	p.Party = partyOf(s, p.ID)
	if p.Party == nil && !s.NoWaiters || p.ID == engine.MarkID {
		p.Error = "Nobody with this ID holds the resource or waits for it any more. Nothing was broken."
		d.serveBreakForm(w, r, http.StatusConflict, p)
		return
	}
	opts := []holdfast.BreakOption{holdfast.BreakReason(p.Reason)}
	if p.Forced {
		opts = append(opts, holdfast.Force())
	}
	switch err := d.client.Break(ctx, p.Resource, p.ID, opts...); {
	case err == nil:
		d.logBreak(r, p, nil)
	case errors.Is(err, holdfast.ErrNotHeld), errors.Is(err, holdfast.ErrInvalid):
		d.refuseByStore(w, r, err)
		return
	default:
		d.logBreak(r, p, err)
		d.serveError(w, r, http.StatusServiceUnavailable, fmt.Errorf("the outcome is unknown: %s may have been broken, or may be soon; look at it again: %w", describe.Text(p.Resource), err))
		return
	}
	if wantsJSON(r) {
		writeJSON(w, http.StatusOK, jsonBroken{p.Resource, p.ID, jsonVersion})
		return
	}
	to := url.Values{"name": {p.Resource}, "broken": {""}}
	w.Header().Set("Location", "./resource?"+to.Encode()) // http.Redirect would make it absolute, without the prefix
	w.WriteHeader(http.StatusSeeOther)
}

type jsonBroken struct {
	Resource string `json:"resource"`
	Broken   string `json:"broken"`
	Version  int    `json:"version"`
}

func (d *dashboard) refuseByStore(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusServiceUnavailable
	switch {
	case errors.Is(err, holdfast.ErrNotHeld):
		status = http.StatusConflict
	case errors.Is(err, holdfast.ErrInvalid):
		status = http.StatusBadRequest
	}
	d.refuse(w, r, status, err)
}

// logBreak logs what was broken, or may have been if unknown is set, without the holder ID, which is the
// key to break it.
func (d *dashboard) logBreak(r *http.Request, p breakPage, unknown error) {
	attrs := []any{slog.String("resource", p.Resource), slog.Bool("forced", p.Forced), slog.String("break_reason", describe.Text(p.Reason)), slog.String("remote", r.RemoteAddr), slog.String("user", userOf(r))}
	message := "holdfast: a wait was ended from the dashboard"
	if h := p.Party; h != nil {
		attrs = append(attrs, slog.String("process", processText(h.Name, h.Host, h.PID)), slog.String("reason", describe.Text(h.Reason)))
		if !h.Waits {
			message = "holdfast: a lease was broken from the dashboard"
			attrs = append(attrs, slog.Uint64("token", h.Token))
		}
	}
	if unknown != nil {
		message = "holdfast: the outcome of a break from the dashboard is unknown"
		attrs = append(attrs, slog.Any("cause", unknown))
	}
	d.logger.Warn(message, attrs...)
}

// partyOf returns the holder or waiter with an ID, or nil.
func partyOf(s holdfast.Snapshot, id string) *partyToBreak {
	for _, h := range s.Holders {
		if h.ID == id {
			return &partyToBreak{Holder: h}
		}
	}
	for _, w := range s.Waiters {
		if w.ID == id {
			return &partyToBreak{holdfast.Holder{ID: w.ID, Name: w.Name, Host: w.Host, PID: w.PID, Reason: w.Reason, Weight: w.Weight, Since: w.Since}, true}
		}
	}
	return nil
}

// serveBreakForm shows the form, with what the ID stands for now.
func (d *dashboard) serveBreakForm(w http.ResponseWriter, r *http.Request, status int, p breakPage) {
	if wantsJSON(r) {
		writeJSON(w, status, jsonFailure{p.Error, jsonVersion})
		return
	}
	reading, err := d.one(p.Resource)
	if err != nil {
		d.serveLoadError(w, r, err)
		return
	}
	got, err := reading.get(r.Context())
	if err != nil {
		d.serveLoadError(w, r, err)
		return
	}
	if got.ok {
		p.Party, p.Now = partyOf(got.value.row.Snapshot, p.ID), got.value.now
	}
	v := pageSpec{path: "break", title: "Break", template: "break.html"}
	d.templates.page(w, status, v.template, d.frame(v, r, content{body: p, fresh: got.freshness(), title: "Break " + describe.Text(p.Resource)}))
}
