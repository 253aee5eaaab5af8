package command

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/describe"
)

// logCmd is `holdfast log`.
type logCmd struct {
	Pattern text  `arg:"" optional:"" default:"*" help:"Names of resources: * matches any text, ? any one byte, \\ makes the next byte literal. Default: all."`
	Since   *span `placeholder:"D" help:"Only events of the last D, such as 1h or 2d. Default: all that the store has."`
	Follow  bool  `short:"f" help:"Continue with new events until interrupted."`
	JSON    bool  `help:"One JSON object per event and line."`
}

// Help is the long text of --help.
func (*logCmd) Help() string {
	return `Prints what happened to leases, oldest first: which process held which resource and for how long, which leases were
lost or broken, and which waits ended without a grant. Times are those of the store's clock; on SQLite of the host's, on
etcd and ZooKeeper of the machines that wrote.

Events are recorded only if the history is on: in services by WithHistory, in this command by --history N or
HOLDFAST_HISTORY=N, where N is how many events the store keeps. A lease that was held for less than 200 ms has one
line, when it ended. A process that is killed does not record the end of its leases.

Examples:
	holdfast log stock:42 --since 2h
	holdfast log --follow
	holdfast log --json | jq -r 'select(.event == "lost") | [.time, .resource, .host] | @tsv'`
}

// Run prints events.
func (c *logCmd) Run(e *env) error {
	return e.with(func(ctx context.Context, s *session) error { return c.read(ctx, e, s) })
}

func (c *logCmd) read(ctx context.Context, e *env, s *session) error {
	now, err := s.now(ctx) // it fails soon if the store does not answer
	if err != nil {
		return err
	}
	q := holdfast.HistoryQuery{Pattern: string(c.Pattern), Follow: c.Follow}
	if c.Pattern == "*" {
		q.Pattern = "" // also events without a resource
	}
	if c.Since != nil {
		q.Since = now.Add(-time.Duration(*c.Since))
	}
	any := false
	for event, err := range s.History(ctx, q) {
		if err == nil {
			any = true
			err = c.print(e, event)
		}
		if err != nil {
			return err
		}
	}
	if !any && !c.JSON && ctx.Err() == nil {
		fmt.Fprintf(e.stderr, "holdfast: no event matches %q (prefix %q): services record events with WithHistory, holdfast run and the like with --history 10000\n", describe.Text(string(c.Pattern)), e.prefix)
	}
	return nil
}

func (c *logCmd) print(e *env, h holdfast.HistoryEvent) error {
	if c.JSON {
		return writeJSON(e.stdout, describe.ToJSONEvent(h))
	}
	_, err := fmt.Fprintf(e.stdout, "%s  %-9s  %s  %s\n", h.At.Local().Format("2006-01-02 15:04:05.000"), describe.Text(string(h.Event)), cell(h.Resource), describeEvent(h))
	return err
}

// describeEvent returns what a line says after the name of the resource.
func describeEvent(h holdfast.HistoryEvent) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch h.Event {
	case holdfast.HistoryReleased, holdfast.HistoryDetached, holdfast.HistoryLost:
		add("held %s", short(h.Held))
	}
	if h.Waited > 0 {
		add("waited %s", short(h.Waited))
	}
	if h.Count > 0 {
		add("%d events", h.Count)
	}
	if h.Cause != "" {
		add("%s", describe.Text(h.Cause))
	}
	if h.Token > 0 {
		add("token %d", h.Token)
	}
	add("%s", where(describe.Text(h.Name), describe.Text(h.Client.Host), h.Client.PID))
	return strings.Join(parts, ", ")
}
