package faulttest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/primitivetest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

const (
	// every is how often a new message comes.
	every = 100 * time.Millisecond
	// kept is how long a message is known to be done: for longer than a test.
	kept = 10 * time.Minute
)

// once is the role of callers to which messages are delivered, each to several of
// them and again later. They record "began ID" and "done ID" with the time at
// which fn was called and at which it is known to have been done, and "skipped ID" if
// it was done before.
func (w *worker) once() error {
	return w.repeatUse(func(ctx context.Context, d *usageLog) error {
		id := fmt.Sprint("message ", (time.Now().UnixNano()-rand.N(5*int64(every)))/int64(every))
		// As Client.Once, with a TTL that ends while others still try.
		job := w.c.Job(id, holdfast.AtLeast(kept), holdfast.RetryFailed(), holdfast.WithTTL(w.TTL))
		run := job.Run
		if rand.IntN(60) == 0 {
			id = "long " + id
			run = func(ctx context.Context, fn func(context.Context) error) (bool, error) {
				return w.c.Once(ctx, id, kept, fn)
			}
		}
		word := strings.ReplaceAll(id, " ", "-")
		// A call does not wait for the whole TTL of a Once that a dead process holds.
		call, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		ran, err := run(call, func(ctx context.Context) error {
			now := time.Now().UnixNano()
			if err := holdfast.LeaseFromContext(ctx).Err(); err != nil {
				return err // it was stopped just before
			}
			d.note("began", word, os.Getpid(), now)
			select {
			case <-time.After(rand.N(w.TTL / 2)):
			case <-ctx.Done():
				return ctx.Err()
			}
			if rand.IntN(5) == 0 {
				return errors.New("it failed")
			}
			return nil
		})
		switch {
		case ran && err == nil:
			d.note("done", word, os.Getpid(), time.Now().UnixNano())
		case !ran && err == nil:
			d.note("skipped", word, os.Getpid(), time.Now().UnixNano())
		case unexplained(err):
			return err
		}
		return nil
	})
}

// message is what happened to one.
type message struct {
	began, skipped int
	done           []int64
	last           int64 // when fn was called for the last time, under a lease
}

// messages reads what the workers wrote down.
func messages(t *testing.T, lines []string) map[string]*message {
	t.Helper()
	all := map[string]*message{}
	for _, line := range lines {
		var what, id string
		var pid int
		var at int64
		if _, err := fmt.Sscanf(line, "%s %s %d %d", &what, &id, &pid, &at); err != nil {
			t.Fatalf("a worker wrote %q", line)
		}
		m := all[id]
		if m == nil {
			m = &message{}
			all[id] = m
		}
		switch what {
		case "began":
			m.began++
			m.last = max(m.last, at)
		case "done":
			m.done = append(m.done, at)
		case "skipped":
			m.skipped++
		}
	}
	return all
}

// deliveries is what happened to all messages.
type deliveries struct{ began, runs, done, skipped int }

func sum(all map[string]*message) (d deliveries) {
	for _, m := range all {
		d.began += min(1, m.began)
		d.runs += m.began
		d.done += len(m.done)
		d.skipped += m.skipped
	}
	return d
}

// enough reports whether many were done, some tried again, and some delivered again.
func (d deliveries) enough() bool { return d.done >= 20 && d.runs > d.began && d.skipped > 0 }

func (d deliveries) String() string {
	return fmt.Sprintf("%d messages in %d runs, %d known to have succeeded, %d times skipped as done", d.began, d.runs, d.done, d.skipped)
}

// Messages are delivered to five processes several times while processes are killed
// and stopped and Redis is killed and started again with its data: none succeeds
// twice, and none is begun any more when it is known to be done.
func TestOnceUnderFaults(t *testing.T) {
	w := newFixture(t, keepingData())
	length := primitivetest.Soak(t, 6*time.Second)
	r := &workerGroup{w: w, role: "once", task: task{TTL: 300 * time.Millisecond, Callers: 3}}
	r.startAll(5)
	r.injectFaults(length, r.task.TTL, func(lines []string) bool { return sum(messages(t, lines)).enough() })
	r.finishAll()
	all := messages(t, r.lines)
	for id, m := range all {
		if len(m.done) > 1 {
			redistest.Broken(t, "%s succeeded %d times", id, len(m.done))
		}
		if len(m.done) > 0 && m.last > m.done[0] {
			redistest.Broken(t, "%s is begun %v after it was done", id, time.Duration(m.last-m.done[0]))
		}
		if m.skipped > 0 && m.began == 0 {
			t.Errorf("%s was skipped as done, and no run of it began", id)
		}
	}
	t.Logf("%v; %v in %v", sum(all), r.faults, length)
}
