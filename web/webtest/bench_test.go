package webtest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/web"
)

// resources is how many are in use in the benchmark.
const resources = 20_000

// BenchmarkManyResources has the figures of docs/DASHBOARD.md: what a page costs at 20,000 resources in use, in
// the process of the dashboard and in Redis, and what ten pages cost.
func BenchmarkManyResources(b *testing.B) {
	ctx := b.Context()
	server := redistest.Start(b, slowAt(5*time.Millisecond))
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
		serve(b, h, resources)
		var slowest time.Duration
		for b.Loop() {
			began := time.Now()
			serve(b, h, resources)
			slowest = max(slowest, time.Since(began))
		}
		b.ReportMetric(float64(slowest.Milliseconds()), "ms-slowest")
	})
	b.Run("reading", func(b *testing.B) {
		reset(b, rdb)
		for b.Loop() {
			serve(b, web.Handler(client()), resources) // a new handler reads
		}
		slow, err := rdb.SlowLogGet(ctx, 100).Result()
		if err != nil {
			b.Fatal(err)
		}
		c := served(b, rdb, resources)
		b.ReportMetric(float64(c.calls)/float64(b.N), "commands/op")
		b.ReportMetric(float64(c.usec)/1000/float64(b.N), "redis-ms/op")
		b.ReportMetric(float64(c.usec)/float64(c.calls), "redis-µs/command")
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
				c := served(b, rdb, resources)
				b.ReportMetric(float64(c.readings), "readings")
				b.ReportMetric(float64(c.calls)/float64(c.readings), "commands/reading")
				b.ReportMetric(float64(c.usec)/1e5, "redis-%")
			}
		})
	}
}

// discard is the answer of a stream, which nobody keeps.
type discard struct{ *httptest.ResponseRecorder }

func (discard) Write(p []byte) (int, error) { return len(p), nil }
