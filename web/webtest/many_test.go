package webtest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/web"
)

// lockMany locks n mutexes, named resource-00000 and so on, some at a time. They stay locked when
// the test ends, with its server.
func lockMany(t testing.TB, c *holdfast.Client, n int) {
	t.Helper()
	var next atomic.Int64
	var workers sync.WaitGroup
	for range 32 {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				m := c.Mutex(fmt.Sprintf("resource-%05d", i), holdfast.WithReason(fmt.Sprintf("order %d", i)), holdfast.WithTTL(time.Hour))
				if _, err := m.Lock(t.Context()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
}

// slowAt makes a server log the commands that take at least so long.
func slowAt(d time.Duration) redistest.Option {
	return redistest.WithArgs("--slowlog-log-slower-than", strconv.FormatInt(d.Microseconds(), 10), "--slowlog-max-len", "100000")
}

// No command of a reading takes Redis 5 ms, and a reading for ten open pages is the same commands as for one.
func TestManyResources(t *testing.T) {
	n := redistest.Scale(2000, 20_000)
	s := &site{t: t, redis: redistest.Start(t, slowAt(5*time.Millisecond))}
	rdb := s.redis.Client()
	lockMany(t, s.newClient("api", "web-1", 4711), n)
	watcher := s.newClient("dashboard", "admin", 1)

	h := web.Handler(watcher)
	began := time.Now()
	serve(t, h, n)
	read := time.Since(began)
	began = time.Now()
	serve(t, h, n)
	t.Logf("of %d resources: the page took %v with a reading and %v without", n, read, time.Since(began))

	var commands []int64
	for _, pages := range []int{1, 10} {
		reset(t, rdb)
		follow(t, web.Handler(watcher), pages, 3)
		c := served(t, rdb, n)
		t.Logf("%d pages: %d readings, %d commands of %.1f µs each", pages, c.readings, c.calls, float64(c.usec)/float64(c.calls))
		if c.readings < 3 || c.calls%c.readings != 0 {
			t.Fatalf("%d pages: %d commands in %d readings", pages, c.calls, c.readings)
		}
		commands = append(commands, c.calls/c.readings)
	}
	if commands[0] != commands[1] || commands[0] < int64(n) {
		t.Errorf("a reading is %d commands for one page and %d for ten", commands[0], commands[1])
	}

	// A command that a busy machine holds up is in the log as well, but not in that of the next reading, too.
	var logs [2]map[string]time.Duration
	for i := range logs {
		reset(t, rdb)
		serve(t, web.Handler(watcher), n)
		logs[i] = slow(t, rdb)
	}
	for command, took := range logs[0] {
		if again, ok := logs[1][command]; ok {
			t.Errorf("%s took %v, and again %v", command, took, again)
		}
	}
	t.Logf("held up by the machine for 5 ms: %d commands, and then %d", len(logs[0]), len(logs[1]))
}

// slow returns the commands of a reading in the log of a server.
func slow(t *testing.T, rdb *redis.Client) map[string]time.Duration {
	t.Helper()
	log, err := rdb.SlowLogGet(t.Context(), -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]time.Duration{}
	for _, one := range log {
		if name := strings.ToLower(one.Args[0]); name == "scan" || name == "mget" || strings.HasPrefix(name, "eval") {
			out[strings.Join(one.Args, " ")] = one.Duration
		}
	}
	return out
}

// follow follows some pages until one of them has been sent some events.
func follow(t *testing.T, h http.Handler, pages, events int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*limit)
	defer cancel()
	var followed sync.WaitGroup
	for range pages {
		followed.Go(func() {
			w := &countEvents{ResponseRecorder: httptest.NewRecorder(), left: events, end: cancel}
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/events?view=", nil))
		})
	}
	followed.Wait() // also for the reading that is under way
}

// countEvents is the answer of a stream, which ends after some events.
type countEvents struct {
	*httptest.ResponseRecorder
	left int
	end  context.CancelFunc
}

func (w *countEvents) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte("data:")) {
		if w.left--; w.left == 0 {
			w.end()
		}
	}
	return len(p), nil
}

// serve serves the first page, which has to have n resources.
func serve(t testing.TB, h http.Handler, n int) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if want := fmt.Sprintf("%d,%03d in use", n/1000, n%1000); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), want) {
		t.Fatalf("%d, want %q\n%.2000s", w.Code, want, w.Body)
	}
}

func reset(t testing.TB, rdb *redis.Client) {
	t.Helper()
	for _, command := range [][]any{{"CONFIG", "RESETSTAT"}, {"SLOWLOG", "RESET"}} {
		if err := rdb.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// cost is what a server has run: commands without those inside scripts, the time that they took, and how many
// readings they were.
type cost struct{ calls, usec, readings int64 }

// served returns what the server has run since the last reset, with so many resources in use.
func served(t testing.TB, rdb *redis.Client, resources int) (c cost) {
	t.Helper()
	text, err := rdb.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		name, stats, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch strings.TrimPrefix(name, "cmdstat_") {
		case "scan", "evalsha", "mget":
		default:
			continue
		}
		for field := range strings.SplitSeq(stats, ",") {
			key, value, _ := strings.Cut(field, "=")
			n, err := strconv.ParseInt(value, 10, 64)
			switch {
			case err != nil:
			case key == "calls":
				c.calls += n
				if name == "cmdstat_evalsha" {
					c.readings = n / int64(resources) // one script a resource
				}
			case key == "usec":
				c.usec += n
			}
		}
	}
	return c
}
