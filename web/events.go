package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// maxStreams bounds how many pages are followed at a time.
	maxStreams = 200
	// writeTimeout bounds one write to a browser that does not read.
	writeTimeout = 10 * time.Second
	// keepOpen is how often a stream without news writes something, so that proxies keep it open.
	keepOpen = 15 * time.Second
	// leastPause is the least time from one event of a stream to the next.
	leastPause = 100 * time.Millisecond
)

// serveEvents sends the part of a page that changes, whenever it has changed, until the browser
// closes the stream. Each event is the whole part, so that none is missed.
func (d *dashboard) serveEvents(w http.ResponseWriter, r *http.Request) {
	v, ok := viewAt(r.URL.Query().Get("view"))
	if !ok {
		d.serveError(w, r, http.StatusNotFound, errors.New("there is no such page"))
		return
	}
	if d.streams.Add(1) > maxStreams {
		d.streams.Add(-1)
		d.serveError(w, r, http.StatusServiceUnavailable, fmt.Errorf("%d pages are followed already", maxStreams))
		return
	}
	defer d.streams.Add(-1)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	s := &eventStream{w: w, out: http.NewResponseController(w)}
	if r.Method == http.MethodHead || s.write([]byte("retry: 2000\n\n")) != nil {
		return
	}
	for d.follow(r, v, s) == nil {
	}
}

// follow sends what a page shows now, and returns when the next reading is due. One of the streams
// then reads for all.
func (d *dashboard) follow(r *http.Request, v pageSpec, s *eventStream) error {
	ctx := r.Context()
	c, err := v.load(d, ctx, r)
	if err != nil {
		return err
	}
	text, err := d.templates.live(v.template, d.frame(v, r, c))
	if err != nil {
		return err
	}
	if err := s.send(text); err != nil {
		return err
	}
	return sleep(ctx, max(leastPause, time.Until(c.fresh.Due)))
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// eventStream is the events of one page.
type eventStream struct {
	w    http.ResponseWriter
	out  *http.ResponseController
	last []byte
	sent time.Time
}

// send sends an event, unless it is the last one again.
func (s *eventStream) send(text []byte) error {
	if bytes.Equal(text, s.last) {
		if time.Since(s.sent) < keepOpen {
			return nil
		}
		return s.write([]byte(":\n\n"))
	}
	s.last = text
	var event bytes.Buffer
	// A carriage return in a name ends a line of the stream as well.
	for line := range bytes.Lines(bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))) {
		event.WriteString("data: ")
		event.Write(bytes.TrimRight(line, "\n"))
		event.WriteByte('\n')
	}
	event.WriteByte('\n')
	return s.write(event.Bytes())
}

func (s *eventStream) write(text []byte) error {
	// The server's own limit for a whole answer must not end the stream.
	if err := s.out.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	s.sent = time.Now()
	return s.out.Flush()
}
