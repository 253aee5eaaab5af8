package holdfast_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// newLog returns a logger and what it writes, without times.
func newLog(level slog.Level) (*slog.Logger, *bytes.Buffer) {
	var out bytes.Buffer
	return slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), &out
}

// wantLog compares a log with the lines that are wanted.
func wantLog(t *testing.T, out *bytes.Buffer, want ...string) {
	t.Helper()
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.TrimSpace(line))
	}
	if !slices.Equal(got, want) {
		t.Errorf("logged\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// toTheEnd returns a log with the lines that have a text after all others.
func toTheEnd(out *bytes.Buffer, text string) *bytes.Buffer {
	var first, last bytes.Buffer
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, text) {
			last.WriteString(line)
		} else {
			first.WriteString(line)
		}
	}
	first.Write(last.Bytes())
	return &first
}

// At Debug each grant, renewal and release has a line with the holder ID, and a re-entrant lease none.
func TestLogAtDebug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := newLog(slog.LevelDebug)
		e := newFlaky()
		c := newClient(t, e, holdfast.WithLogger(log))
		m := c.Mutex("x", holdfast.WithReentrancy())
		l := mustLock(t, m.Lock, context.Background())
		mustRelease(t, mustLock(t, m.Lock, l.Context()))
		next := lockSoon(context.Background(), m.Lock)
		time.Sleep(6 * time.Second)
		e.Set(func() {
			e.OnRenew = func(ctx context.Context, all []engine.Renewal) []error {
				return slices.Repeat([]error{errFailed}, len(all))
			}
		})
		time.Sleep(4*time.Second + time.Second/2)
		e.Set(func() { e.OnRenew = nil })
		time.Sleep(time.Second)
		mustRelease(t, l)
		second := wantGrant(t, next).lease
		mustRelease(t, second)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		of := func(what string, l *holdfast.Lease, more string) string {
			return fmt.Sprintf(`level=DEBUG msg="holdfast: %s" resource=x kind=mutex token=%d holder=%s %s`, what, l.Token(), l.HolderID(), more)
		}
		wantLog(t, toTheEnd(out, second.HolderID()), // the release and the next grant are logged by two goroutines
			of("lease granted", l, "waited=0s"),
			of("lease renewed", l, "left=14.68s"),
			of("renewal failed; it is retried", l, `left=9.68s err="it failed"`),
			of("renewal failed; it is retried", l, `left=9.196s err="it failed"`),
			of("lease renewed", l, "left=14.68s"),
			of("lease released", l, "held=11.5s"),
			of("lease granted", second, "waited=11.5s"),
			of("lease released", second, "held=0s"),
		)
	})
}

// A term of an election has a line at its beginning and at its end, also if it is lost or ended by
// Close. No line at Info has a holder ID, and no other lease has a line.
func TestLogOfTerms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := newLog(slog.LevelInfo)
		c := newClient(t, memory.New(), holdfast.WithLogger(log))
		campaign := func(name string) *holdfast.Lease {
			l, err := c.Election(name).Campaign(context.Background(), "v")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second) // longer than it takes to subscribe to breaks
			return l
		}
		resigned := campaign("resigned")
		mustRelease(t, resigned)
		lost := campaign("lost")
		if err := c.Break(context.Background(), "lost", lost.HolderID()); err != nil {
			t.Fatal(err)
		}
		<-lost.Done()
		synctest.Wait() // the loss is logged beside
		_ = lost.Release(context.Background())
		closed := campaign("closed")
		mustLock(t, c.Mutex("other").Lock, context.Background())
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		of := func(what string, l *holdfast.Lease, more string) string {
			return fmt.Sprintf(`level=INFO msg="holdfast: election term %s" resource=%s token=%d %s`, what, l.Resource(), l.Token(), more)
		}
		wantLog(t, out,
			of("began", resigned, "waited=0s"),
			of("ended", resigned, "held=2s"),
			of("began", lost, "waited=0s"),
			fmt.Sprintf(`level=ERROR msg="holdfast: lease lost" resource=lost kind=election token=%d cause=broken err=<nil>`, lost.Token()),
			of("ended", lost, "held=2s cause=broken"),
			of("began", closed, "waited=0s"),
			of("ended", closed, "held=2s"),
		)
	})
}

// Trouble with the store is a warning without a holder ID.
func TestLogOfTroubleWithTheStore(t *testing.T) {
	for name, tt := range map[string]struct {
		trouble func(t *testing.T, e *flaky, c *holdfast.Client)
		want    string
	}{
		"fallback": {func(t *testing.T, e *flaky, c *holdfast.Client) {
			e.out(hang)
			mustLock(t, c.Mutex("open", failOpen).Lock, context.Background())
			mustLock(t, c.Mutex("open", failOpen).Lock, context.Background())
		}, `level=WARN msg="holdfast: the store does not respond; locks with a fallback fall back at once until it does"`},
		"subscription": {func(_ *testing.T, e *flaky, _ *holdfast.Client) {
			e.Set(func() { e.OnListen = down })
			time.Sleep(2 * time.Second) // the lease is then old enough for one
		}, `level=WARN msg="holdfast: cannot listen for wake-ups; waiters poll" err="store unavailable: connection refused"`},
		"several": {func(t *testing.T, e *flaky, c *holdfast.Client) {
			l := mustLock(t, c.Multi([]string{"a", "b"}, holdfast.WithTTL(time.Second), holdfast.WithoutRenewal()).Lock, context.Background())
			e.Set(func() { e.OnRelease = func(ctx context.Context, _ engine.Release) error { return hang(ctx) } })
			<-l.Done()
			time.Sleep(2 * time.Second) // longer than one release may take
		}, `level=WARN msg="holdfast: a lease was not released in time; retrying in the background" resource="a and 1 more" ` +
			`err="holdfast: release \"a\": store unavailable: context deadline exceeded\nholdfast: release \"b\": store unavailable: context deadline exceeded"`},
		"several, of which one is lost": {func(t *testing.T, e *flaky, c *holdfast.Client) {
			l := mustLock(t, c.Multi([]string{"a", "b"}, holdfast.WithTTL(time.Second), holdfast.WithoutRenewal()).Lock, context.Background())
			e.Set(func() {
				e.OnRelease = func(ctx context.Context, r engine.Release) error {
					if r.Resource.Name == "a" {
						return &engine.NotHeldError{Cause: engine.CauseTaken}
					}
					return hang(ctx)
				}
			})
			<-l.Done()
			time.Sleep(2 * time.Second)
		}, `level=WARN msg="holdfast: a lease was not released in time; retrying in the background" resource="a and 1 more" ` +
			`err="holdfast: release \"b\": store unavailable: context deadline exceeded"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log, out := newLog(slog.LevelInfo)
				e := newFlaky()
				c := newClient(t, e, holdfast.WithLogger(log))
				mustLock(t, c.Mutex("held").Lock, context.Background())
				tt.trouble(t, e, c)
				synctest.Wait()
				wantLog(t, out, tt.want)
				e.out(nil)
			})
		})
	}
}

// That the history cannot be written is a warning when it begins, and when Close gives it up.
func TestLogOfTheHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := newLog(slog.LevelInfo)
		e := &historyFails{Engine: memory.New()}
		e.broken.Store(true)
		c := newHistoryClient(t, e, holdfast.WithLogger(log))
		mustLock(t, c.Mutex("x").Lock, context.Background())
		time.Sleep(time.Minute)
		synctest.Wait()
		first := `level=WARN msg="holdfast: the history cannot be written; retrying" err="store unavailable"`
		wantLog(t, out, first)
		must(t, c.Close())
		wantLog(t, out, first, `level=WARN msg="holdfast: events of the history were not written" events=2`) // the grant and the end
	})
}

// An acquire that waits behind a hundred others is logged, ten a minute one by one.
func TestLogOfLongQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := newLog(slog.LevelInfo)
		c := newClient(t, memory.New(), holdfast.WithLogger(log))
		m := c.Mutex("x", holdfast.WithoutTenure())
		mustLock(t, m.Lock, context.Background())
		ctx, cancel := context.WithCancel(context.Background())
		var waits []<-chan result
		for range 115 {
			waits = append(waits, lockSoon(ctx, m.Lock))
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		var want []string
		for i := range 10 {
			want = append(want, fmt.Sprintf(`level=WARN msg="holdfast: long queue" resource=x kind=mutex queue=store ahead=%d`, 100+i))
		}
		wantLog(t, out, append(want, `level=WARN msg="holdfast: more acquires joined a long queue" more=5`)...)
		cancel()
		for _, w := range waits {
			<-w
		}
	})
}

// New reads the level once: a pair without Debug does not call the logger.
func TestLogWithoutDebug(t *testing.T) {
	h := &levelHandler{Handler: slog.NewTextHandler(io.Discard, nil)}
	c := newClient(t, memory.New(), holdfast.WithLogger(slog.New(h)))
	before := h.asked
	mustRelease(t, mustLock(t, c.Mutex("x").Lock, context.Background()))
	if before == 0 || h.asked != before {
		t.Errorf("%d calls of Enabled by New, %d by a pair; want some, and none", before, h.asked-before)
	}
}

// levelHandler counts the calls of Enabled.
type levelHandler struct {
	slog.Handler
	asked int
}

func (h *levelHandler) Enabled(ctx context.Context, level slog.Level) bool {
	h.asked++
	return h.Handler.Enabled(ctx, level)
}
