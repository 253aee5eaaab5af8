package subject_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/subject"
)

// TestRedlockWaitsForANodeForAShortTime: the two others grant it, long before the connection's own timeout. A busy
// machine may delay a few tries.
func TestRedlockWaitsForANodeForAShortTime(t *testing.T) {
	setup := subject.Setup{Client: "a", TTL: 2 * time.Second}
	for i := range 3 {
		server := redistest.Start(t)
		setup.Nodes = append(setup.Nodes, server.Client(func(o *redis.Options) { *o = *subject.Connect(server.Addr()) }))
		if i == 0 {
			server.Pause()
		}
	}
	c, err := subject.Redlock().Open(setup)
	if err != nil {
		t.Fatal(err)
	}
	const nodeTimeout = 50 * time.Millisecond
	tries := 0
	redistest.Await(t, 15*time.Second, "a grant within three timeouts of a node", func() bool {
		tries++
		start := time.Now()
		_, err := c.Try(t.Context(), fmt.Sprint("stock-", tries))
		took := time.Since(start)
		t.Logf("try %d: %v in %v", tries, err, took)
		return err == nil && took >= nodeTimeout && took < 3*nodeTimeout
	})
}
