package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
)

// reporter reports the events of a guarded command, on standard error or in a file: as text, or
// with --json as one JSON object per line. It is used by one goroutine.
type reporter struct {
	w       io.Writer
	quiet   bool
	verbose bool
	dated   bool         // messages have the time and the PID
	json    *slog.Logger // nil without --json
	file    *os.File     // of --log-file, or nil
}

// openReporter returns the reporter of a command; it writes to w or to the file of --log-file.
// The caller closes it.
func openReporter(w io.Writer, c *guarded) (*reporter, error) {
	if c.LogFile == "" {
		return newReporter(w, c), nil
	}
	file, err := os.OpenFile(c.LogFile, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fail(exitConfig, "%v; check --log-file", err)
	}
	r := newReporter(file, c)
	r.dated, r.file = true, file
	return r, nil
}

func (r *reporter) close() {
	if r.file != nil {
		r.file.Close()
	}
}

func newReporter(w io.Writer, c *guarded) *reporter {
	r := &reporter{w: w, quiet: c.Quiet, verbose: c.Verbose}
	if c.JSON {
		h := slog.NewJSONHandler(w, &slog.HandlerOptions{ReplaceAttr: jsonNames})
		r.json = slog.New(h).With("resource", c.resources()[0])
		if c.names != nil {
			r.json = slog.New(h).With("resources", c.names)
		}
	}
	return r
}

// jsonNames adapts slog's fields to events: they have a name and no level, times are
// UTC, and durations are milliseconds in a field whose name ends in _ms.
func jsonNames(_ []string, a slog.Attr) slog.Attr {
	switch {
	case a.Key == slog.LevelKey:
		return slog.Attr{}
	case a.Key == slog.MessageKey:
		a.Key = "event"
	case a.Value.Kind() == slog.KindTime:
		a.Value = slog.TimeValue(a.Value.Time().UTC())
	case a.Value.Kind() == slog.KindDuration:
		return slog.Float64(a.Key+"_ms", float64(a.Value.Duration().Microseconds())/1000)
	}
	return a
}

// detail reports what only -v prints.
func (r *reporter) detail(event string, attrs []slog.Attr, format string, args ...any) {
	r.tell(r.verbose, event, attrs, format, args)
}

// notice reports an event, unless -q is given.
func (r *reporter) notice(event string, attrs []slog.Attr, format string, args ...any) {
	r.tell(true, event, attrs, format, args)
}

func (r *reporter) tell(show bool, event string, attrs []slog.Attr, format string, args []any) {
	switch {
	case r.json != nil:
		r.json.LogAttrs(context.Background(), slog.LevelInfo, event, append(attrs, slog.Int("version", jsonVersion))...)
	case show && !r.quiet:
		from := "holdfast"
		if r.dated {
			from = fmt.Sprintf("%s holdfast[%d]", time.Now().Format(time.RFC3339), os.Getpid())
		}
		fmt.Fprintf(r.w, from+": "+format+"\n", args...)
	}
}

// failure reports why the program ends without CMD's own exit code, and returns an error
// that only has the code.
func (r *reporter) failure(event string, e *exitError, attrs ...slog.Attr) error {
	if e.text != "" {
		attrs = append(attrs, slog.Int("code", e.code), slog.String("message", e.text))
		r.notice(event, attrs, "%s", e.text)
	}
	return &exitError{code: e.code, sig: e.sig}
}

// lossAttrs are the fields of an event for a lost lease: the cause, and the reason of a break.
func lossAttrs(err error) []slog.Attr {
	var lost *holdfast.LostError
	if !errors.As(err, &lost) {
		return nil
	}
	attrs := []slog.Attr{slog.String("cause", lost.Cause.String())}
	if lost.Reason != "" {
		attrs = append(attrs, slog.String("reason", lost.Reason))
	}
	return attrs
}

// short formats a duration for messages.
func short(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}
