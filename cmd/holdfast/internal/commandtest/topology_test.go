package commandtest

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/transcript"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestTopologies runs on each topology what runs on every store, and then what
// testdata/failover and testdata/quorum have for some: scripts that break it.
func TestTopologies(t *testing.T) {
	durable := redistest.WithArgs("--appendonly", "yes", "--appendfsync", "always")
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t, durable, redistest.WithArgs("--cluster-node-timeout", "2000"))
		onRedis(t, c.URL())
		m := c.MasterOf("holdfast:{r}")
		transcript.Setting{URL: c.URL(), Nodes: []*redistest.Server{m}, Failover: func() { c.FailOver(m) }}.Run(t, "testdata/failover")
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		s := redistest.StartSentinel(t, durable)
		onRedis(t, s.URL())
		transcript.Setting{URL: s.URL(), Nodes: []*redistest.Server{s.Master()}, Failover: func() { s.AwaitFailOver() }}.Run(t, "testdata/failover")
	})
	t.Run("quorum", func(t *testing.T) {
		t.Parallel()
		var nodes []*redistest.Server
		var urls []string
		for range 3 {
			s := redistest.Start(t, durable)
			nodes, urls = append(nodes, s), append(urls, s.URL())
		}
		onRedis(t, strings.Join(urls, ","))
		transcript.Setting{URL: strings.Join(urls, ","), Nodes: nodes}.Run(t, "testdata/quorum")
	})
}

// onRedis runs what works on every topology of Redis.
func onRedis(t *testing.T, url string) {
	wrong := map[string]string{"WRONG": strings.ReplaceAll(url, "://", "://nobody:wr0ng@")}
	transcript.Setting{URL: url}.Run(t, scripts+"topologies")
	transcript.Setting{URL: url, Env: wrong}.Run(t, "testdata/redis")
}
