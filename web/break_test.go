package web_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
	"github.com/holdfast-go/holdfast/web"
)

// breaker is an engine with a Break of its own.
type breaker struct {
	engine.Engine
	breaks func(context.Context, engine.Resource, engine.Break) error
}

func (b *breaker) Break(ctx context.Context, res engine.Resource, what engine.Break) error {
	return b.breaks(ctx, res, what)
}

// Nothing was broken only if the store has said so. Any other error, or none in time, leaves it unknown.
func TestBreakWithUnknownOutcome(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(context.Context) error // after the lease was broken
		status int
		want   string
	}{
		"unavailable":     {func(context.Context) error { return fmt.Errorf("a reply was lost: %w", engine.ErrUnavailable) }, http.StatusServiceUnavailable, "the outcome is unknown"},
		"any other error": {func(context.Context) error { return errors.New("odd") }, http.StatusServiceUnavailable, "the outcome is unknown"},
		"no answer":       {func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, http.StatusServiceUnavailable, "the outcome is unknown"},
		"not held":        {func(context.Context) error { return &engine.NotHeldError{} }, http.StatusConflict, "nothing was broken"},
	} {
		for _, target := range []string{"/break", "/api/v1/break"} {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				on := &breaker{Engine: memory.New(), breaks: func(ctx context.Context, _ engine.Resource, _ engine.Break) error { return c.breaks(ctx) }}
				l := lock(t, newClient(t, on, "api"), "a")
				h := web.Handler(newClient(t, on, "dashboard"), web.WithBreak(allow), web.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
				resp, text := post(t, h, target, breakForm("a", l, l.HolderID()))
				if resp.StatusCode != c.status || !strings.Contains(text, c.want) {
					t.Errorf("%s, %s: %d, want %d and %q:\n%s", name, target, resp.StatusCode, c.status, c.want, text)
				}
				if unknown := c.status == http.StatusServiceUnavailable; strings.Contains(log.String(), "is unknown") != unknown || strings.Contains(log.String(), "was refused") == unknown {
					t.Errorf("%s: the log has\n%s", name, log.String())
				}
			})
		}
	}
}

// The reason of a break reaches the holder, and the form keeps it when the ID was typed wrong.
func TestBreakReason(t *testing.T) {
	for _, target := range []string{"/break", "/api/v1/break"} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			on := memory.New()
			l := lock(t, newClient(t, on, "api"), "a")
			h := web.Handler(newClient(t, on, "dashboard"), web.WithBreak(allow), web.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			form := breakForm("a", l, "wrong")
			form.Set("reason", `deploy "at" noon`)
			if _, text := post(t, h, "/break", form); !strings.Contains(text, `name="reason" value="deploy &#34;at&#34; noon"`) {
				t.Errorf("the form has lost the reason:\n%s", text)
			}
			form = breakForm("a", l, l.HolderID())
			form.Set("reason", strings.Repeat("x", 257))
			if resp, text := post(t, h, target, form); resp.StatusCode != http.StatusBadRequest || !strings.Contains(text, "256 bytes") || l.Err() != nil {
				t.Errorf("%s: a reason of 257 bytes: %d, %v\n%s", target, resp.StatusCode, l.Err(), text)
			}
			form.Set("reason", `deploy "at" noon`)
			if resp, text := post(t, h, target, form); resp.StatusCode >= http.StatusBadRequest {
				t.Fatalf("%s: %d\n%s", target, resp.StatusCode, text)
			}
			<-l.Done()
			if lost, ok := errors.AsType[*holdfast.LostError](l.Err()); !ok || lost.Reason != `deploy "at" noon` {
				t.Errorf("%s: the holder was given %v", target, l.Err())
			}
			if !strings.Contains(log.String(), `break_reason="deploy \"at\" noon"`) {
				t.Errorf("the log has\n%s", log.String())
			}
		})
	}
}

// A break goes on when its browser leaves.
func TestBreakOutlivesItsBrowser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		on := &breaker{Engine: memory.New()}
		on.breaks = func(ctx context.Context, res engine.Resource, what engine.Break) error {
			select {
			case <-time.After(time.Second):
				return on.Engine.Break(ctx, res, what)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		l := lock(t, newClient(t, on, "api"), "a")
		h := web.Handler(newClient(t, on, "dashboard"), web.WithBreak(allow), web.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		ctx, leave := context.WithTimeout(t.Context(), time.Second/2)
		defer leave()
		form := url.Values{"typed": {l.HolderID()}}
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/break?"+breakForm("a", l, "").Encode(), strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		h.ServeHTTP(httptest.NewRecorder(), r)
		if !strings.Contains(log.String(), "a lease was broken from the dashboard") {
			t.Errorf("the log has\n%s", log.String())
		}
	})
}
