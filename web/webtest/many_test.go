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
	"github.com/holdfast-go/holdfast/engine/goredis"
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

// resources is how many are in use in the benchmark.
const resources = 20_000

// BenchmarkManyResources has the figures of docs/DASHBOARD.md: what a page costs at 20,000 resources in use, in
// the process of the dashboard and in Redis, and what ten pages cost.
func BenchmarkManyResources(b *testing.B) {
	ctx := b.Context()
	server := redistest.Start(b, redistest.WithArgs("--slowlog-log-slower-than", "5000", "--slowlog-max-len", "1000"))
	rdb := server.Client()
	client := func() *holdfast.Client {
		c, err := holdfast.New(goredis.New(server.Client()))
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	lockMany(b, client(), resources)
	b.Run("page", func(b *testing.B) {
		h := web.Handler(client())
		serve(b, h, "/")
		var slowest time.Duration
		for b.Loop() {
			began := time.Now()
			serve(b, h, "/")
			slowest = max(slowest, time.Since(began))
		}
		b.ReportMetric(float64(slowest.Milliseconds()), "ms-slowest")
	})
	b.Run("reading", func(b *testing.B) {
		reset(b, rdb)
		for b.Loop() {
			serve(b, web.Handler(client()), "/") // a new handler reads
		}
		slow, err := rdb.SlowLogGet(ctx, 100).Result()
		if err != nil {
			b.Fatal(err)
		}
		calls, usec, _ := served(b, rdb)
		b.ReportMetric(float64(calls)/float64(b.N), "commands/op")
		b.ReportMetric(float64(usec)/1000/float64(b.N), "redis-ms/op")
		b.ReportMetric(float64(usec)/float64(calls), "redis-µs/command")
		b.ReportMetric(float64(len(slow))/float64(b.N), "over-5ms/op") // by the wall clock, so a busy machine has some
	})
	for _, pages := range []int{1, 10} {
		b.Run(fmt.Sprintf("pages=%d", pages), func(b *testing.B) {
			for b.Loop() {
				h := web.Handler(client())
				reset(b, rdb)
				look, cancel := context.WithTimeout(ctx, 10*time.Second)
				var followed sync.WaitGroup
				for range pages {
					followed.Go(func() {
						h.ServeHTTP(discard{httptest.NewRecorder()}, httptest.NewRequestWithContext(look, http.MethodGet, "/events?view=", nil))
					})
				}
				followed.Wait()
				cancel()
				calls, usec, readings := served(b, rdb)
				b.ReportMetric(float64(readings), "readings")
				b.ReportMetric(float64(calls)/float64(readings), "commands/reading")
				b.ReportMetric(float64(usec)/1e5, "redis-%")
			}
		})
	}
}

// discard is the answer of a stream, which nobody keeps.
type discard struct{ *httptest.ResponseRecorder }

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func serve(b *testing.B, h http.Handler, path string) {
	b.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodGet, path, nil))
	if w.Code != http.StatusOK || !bytes.Contains(w.Body.Bytes(), []byte("20,000")) {
		b.Fatalf("%d\n%.2000s", w.Code, w.Body)
	}
}

func reset(b *testing.B, rdb *redis.Client) {
	b.Helper()
	for _, command := range [][]any{{"CONFIG", "RESETSTAT"}, {"SLOWLOG", "RESET"}} {
		if err := rdb.Do(b.Context(), command...).Err(); err != nil {
			b.Fatal(err)
		}
	}
}

// served returns how many commands the server has run and the time that they took, without those inside scripts,
// and how many readings they were.
func served(b *testing.B, rdb *redis.Client) (calls, usec, readings int64) {
	b.Helper()
	text, err := rdb.Info(b.Context(), "commandstats").Result()
	if err != nil {
		b.Fatal(err)
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
				calls += n
				if name == "cmdstat_evalsha" {
					readings = n / resources // one script a resource
				}
			case key == "usec":
				usec += n
			}
		}
	}
	return calls, usec, readings
}
