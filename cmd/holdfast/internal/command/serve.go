package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/doctor"
	"github.com/holdfast-go/holdfast/web"
)

// serveCmd is `holdfast serve`. The dashboard is package web.
type serveCmd struct {
	Listen     string   `default:"127.0.0.1:7380" placeholder:"ADDR" help:"Address and port to serve on. Any other than loopback needs --auth-file or HOLDFAST_SERVE_AUTH. Default: ${default}."`
	AllowBreak bool     `help:"Allow breaks of leases and waits. Needs --auth-file or HOLDFAST_SERVE_AUTH. Default: the dashboard is read-only."`
	AuthFile   string   `placeholder:"FILE" help:"File with what a browser must send: user:password, or a token. HOLDFAST_SERVE_AUTH is the same without a file. Default: none."`
	Host       []string `placeholder:"NAME" help:"Names of this server beside its address, such as that of a proxy in front of it. Needs --auth-file or HOLDFAST_SERVE_AUTH. Requests for other names are refused while it serves on loopback."`

	Prometheus     string `placeholder:"URL" help:"Prometheus to draw charts of the last hour from, if the services use otelholdfast. HOLDFAST_SERVE_PROMETHEUS is the same, and may have a user and a password. Default: charts of what this process sees, alone."`
	PrometheusFile string `placeholder:"FILE" help:"File with the URL of the Prometheus, which may have a user and a password. Default: none."`
}

// Help is the long text of --help.
func (*serveCmd) Help() string {
	return `Serves a dashboard for browsers: the holders of each resource, since when and why, its waiters and which queues grow;
clients, jobs and elections, and what "holdfast doctor" finds without its trials. The same is JSON under /api/v1, and
counts are metrics for Prometheus at /metrics. It reads the store only when a request needs it. It is read-only unless --allow-break is given; then a lease is broken by
typing its ID, and each break is logged on standard error. With --prometheus it also has charts of what the services
themselves have measured.

It serves on loopback by default: reach it by ssh -L 7380:127.0.0.1:7380 HOST, or put a proxy with TLS in front
and give the proxy's name with --host. With --allow-break, with --host and on any other address it needs a password
or a token, which travel unencrypted without such a proxy. A token is sent as "Authorization: Bearer TOKEN", or as a password of any user.

Examples:
	holdfast serve
	HOLDFAST_SERVE_AUTH=ops:secret holdfast serve --listen 10.0.0.5:7380
	holdfast serve --allow-break --auth-file /run/secrets/holdfast --host locks.example.com
	holdfast serve --prometheus http://prometheus:9090
	curl -s http://127.0.0.1:7380/api/v1/resources?sort=wait
	curl -s http://127.0.0.1:7380/metrics`
}

const (
	// shutdownTimeout bounds how long requests under way may take when the server ends.
	shutdownTimeout = time.Second
	// headerTimeout and bodyTimeout bound how long a browser takes to send a request.
	headerTimeout = 5 * time.Second
	bodyTimeout   = 15 * time.Second
	// answerTimeout bounds an answer. It is longer than a list and an examination of a slow store
	// together. Streams of events have deadlines of their own.
	answerTimeout = 2 * time.Minute
)

// Run serves until a signal.
func (c *serveCmd) Run(e *env) error {
	door, err := c.door()
	if err != nil {
		return err
	}
	charts, err := c.charts()
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(e.stderr, nil))
	return e.with(func(ctx context.Context, s *session) error { return c.serve(ctx, e, s, door, charts, logger) },
		holdfast.WithName("holdfast serve"), holdfast.WithLogger(logger))
}

func (c *serveCmd) serve(ctx context.Context, e *env, s *session, door *serveDoor, charts []web.Option, logger *slog.Logger) error {
	opts := []web.Option{web.WithLogger(logger), web.WithTitle(fmt.Sprintf("%s, prefix %q", s.at, e.prefix)), web.WithExamination(s.examination(e.prefix))}
	opts = append(opts, charts...)
	mode := "read-only"
	if c.AllowBreak {
		opts = append(opts, web.WithBreak(func(*http.Request) error { return nil })) // the door has let the request in
		mode = "breaks are allowed"
	}
	door.inside = withMetrics(web.Handler(s.Client, opts...), &storeMetrics{s: s})
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fail(exitFailed, "%v; choose another address with --listen", err)
	}
	fmt.Fprintf(e.stdout, "http://%s/ (%s)\n", l.Addr(), mode)
	server := &http.Server{
		Handler: door, ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, WriteTimeout: answerTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }, // ends the streams of events
		ErrorLog:    slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err = <-ended:
		return fail(exitFailed, "%v", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if server.Shutdown(grace) != nil {
		_ = server.Close() // a request that does not end is cut off
	}
	<-ended
	return nil
}

// examination returns a function that examines the store as `holdfast doctor` does,
// without its trials: a dashboard acquires nothing.
func (s *session) examination(prefix string) func(context.Context) ([]web.Finding, error) {
	return func(ctx context.Context) ([]web.Finding, error) {
		report := doctor.Examine(ctx, s.store, diagnosis.Options{Prefix: prefix, TTL: holdfast.DefaultTTL, ReadOnly: true})
		if err := ctx.Err(); err != nil {
			return nil, errors.New("it took too long")
		}
		var out []web.Finding
		for _, f := range report.Merged() {
			out = append(out, web.Finding{Check: f.Check, Node: f.Node, Status: string(f.Status), Found: f.Found, Remedy: f.Remedy})
		}
		return out, nil
	}
}
