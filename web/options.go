package web

import (
	"context"
	"log/slog"
	"net/http"
)

// An Option configures a Handler.
type Option func(*options)

type options struct {
	authorize func(*http.Request) error
	logger    *slog.Logger
	title     string
	examine   func(context.Context) ([]Finding, error)
	given     func(context.Context) ([]Series, error)
}

// WithBreak allows the requests that authorize accepts to break leases and waits
// (default: the handler is read-only). If authorize returns an error the answer
// is 403 with the error's text. The request has been sent from a page of the same
// origin, or by a program that is no browser: authorize must tell such programs
// from operators, for example by what the server's login put into the context of
// the request. The text in which the holder ID was typed is checked afterwards.
func WithBreak(authorize func(*http.Request) error) Option {
	return func(o *options) { o.authorize = authorize }
}

// WithLogger sets the logger for breaks, done and refused (default: none is
// logged). A break is logged with resource, token, process and remote address,
// at level Warn.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) {
		if l == nil {
			l = slog.New(slog.DiscardHandler)
		}
		o.logger = l
	}
}

// WithTitle sets the text at the top of each page that tells one store from
// another (default: "Holdfast").
func WithTitle(title string) Option { return func(o *options) { o.title = title } }

// WithExamination sets a function that examines the store for the page of that
// name, as holdfast doctor does (default: none). It is called at most once a
// minute, while somebody looks at that page, and must end with its ctx, after 30
// seconds at the latest.
func WithExamination(examine func(context.Context) ([]Finding, error)) Option {
	return func(o *options) { o.examine = examine }
}

// WithSeries sets a function that returns further charts for the page of what is
// in use (default: none): [Prometheus] returns such a function. It is called at
// most every 15 seconds while somebody looks at that page, in a goroutine of its
// own, since the page does not wait for it, and must end with its ctx, after 5
// seconds at the latest. If it fails, the page says why.
func WithSeries(read func(context.Context) ([]Series, error)) Option {
	return func(o *options) { o.given = read }
}

// A Finding is the result of one check of an examination.
type Finding struct {
	Check  string `json:"check"`
	Node   string `json:"node"`   // a server, or all
	Status string `json:"status"` // OK, WARN, FAIL or UNKNOWN
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"` // what to do
}
