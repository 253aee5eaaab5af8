package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/examples/internal/node"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { node.Main(m, main) }

// gateway counts what it was sent, by idempotency key. The request number
// hangAt, from 1, arrives and is not answered.
type gateway struct {
	hangAt  int
	hanging chan struct{}

	mu    sync.Mutex
	calls int
	seen  map[string]int
}

func (g *gateway) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // then the end of the connection ends r.Context
	g.mu.Lock()
	g.calls++
	g.seen[r.Header.Get("Idempotency-Key")]++
	hang := g.calls == g.hangAt
	g.mu.Unlock()
	if hang {
		close(g.hanging)
		<-r.Context().Done()
	}
}

// Four nodes run the slot. The one that pushes is killed in mid-call, when the
// gateway has the message: another goes on, every user gets the push, and the
// only repetition is that of the message whose answer never came.
func TestEachUserIsPushedOnce(t *testing.T) {
	const users, hangAt = 30, 10
	server := redistest.Start(t)
	rdb := server.Client()
	for i := range users {
		if err := rdb.SAdd(t.Context(), "users", fmt.Sprint("user-", i)).Err(); err != nil {
			t.Fatal(err)
		}
	}
	g := &gateway{hangAt: hangAt, hanging: make(chan struct{}), seen: map[string]int{}}
	web := httptest.NewServer(g)
	defer web.Close()

	start := func(ttl string) *node.Process {
		return node.Start(t, "-redis", server.URL(), "-gateway", web.URL, "-catch-up", "-ttl", ttl)
	}
	pushes := start("1s") // the first alone, so that it is known who pushes
	<-g.hanging
	nodes := []*node.Process{pushes, start("15s"), start("15s"), start("15s")}
	pushes.Kill()
	built, pushed := 0, 0
	for _, n := range nodes {
		if n != pushes {
			n.Wait()
		}
		built += len(n.Matching("built: "))
		pushed += len(n.Matching("pushed: "))
	}
	if built != 1 || pushed != 1 {
		t.Errorf("%d nodes built the report and %d finished the push, want 1 and 1", built, pushed)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.seen) != users || g.calls != users+1 {
		t.Errorf("%d of %d users got the push, in %d calls; want one call a user and one that was repeated", len(g.seen), users, g.calls)
	}
}
