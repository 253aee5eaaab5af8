package command

import (
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// TestTopologies runs testdata/topologies on each topology, and then what
// testdata/failover and testdata/quorum have for some: scripts that break it.
func TestTopologies(t *testing.T) {
	durable := redistest.WithArgs("--appendonly", "yes", "--appendfsync", "always")
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := redistest.StartCluster(t, durable, redistest.WithArgs("--cluster-node-timeout", "2000"))
		onRedis(t, c.URL())
		m := c.MasterOf("holdfast:{r}")
		onTopology(t, "failover", topology{url: c.URL(), nodes: []*redistest.Server{m}, failover: func() { c.FailOver(m) }})
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		s := redistest.StartSentinel(t, durable)
		onRedis(t, s.URL())
		onTopology(t, "failover", topology{url: s.URL(), nodes: []*redistest.Server{s.Master()}, failover: func() { s.AwaitFailOver() }})
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
		onTopology(t, "quorum", topology{url: strings.Join(urls, ","), nodes: nodes})
	})
}

// onRedis runs what works on every topology of Redis.
func onRedis(t *testing.T, url string) {
	wrong := map[string]string{"WRONG": strings.ReplaceAll(url, "://", "://nobody:wr0ng@")}
	onTopology(t, "topologies", topology{url: url})
	onTopology(t, "redis", topology{url: url, env: wrong})
}

// topology is where scripts run.
type topology struct {
	url   string
	env   map[string]string   // besides HOLDFAST_STORE
	nodes []*redistest.Server // that scripts may break, by number, from 0
	// failover waits until another server has taken over from nodes[0].
	failover func()
}

type topologyKey struct{}

// onTopology runs the scripts of a folder and waits for their end.
func onTopology(t *testing.T, folder string, on topology) {
	t.Run(folder, func(t *testing.T) { runOn(t, folder, on) })
}

func runOn(t *testing.T, folder string, on topology) {
	stalls := redistest.WatchStalls(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/" + folder, RequireUniqueNames: true, RequireExplicitExec: true, Cmds: scriptCommands,
		Setup: func(e *testscript.Env) error {
			jobs := &jobs{running: map[string]*job{}}
			e.Defer(jobs.end)
			e.Values[jobsKey{}] = jobs
			e.Values[topologyKey{}], e.Values[stallsKey{}] = on, stalls
			e.Setenv("HOLDFAST_STORE", on.url)
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			for name, value := range on.env {
				e.Setenv(name, value)
			}
			return nil
		},
	})
}

// node returns the server that a script's argument numbers.
func node(ts *testscript.TestScript, args []string) *redistest.Server {
	nodes := ts.Value(topologyKey{}).(topology).nodes
	need(ts, len(args) == 1, "node-… NUMBER")
	i, err := strconv.Atoi(args[0])
	ts.Check(err)
	need(ts, i < len(nodes), "a NUMBER that is there")
	return nodes[i]
}
