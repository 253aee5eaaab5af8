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
		onTopology(t, "topologies", topology{url: c.URL()})
		m := c.MasterOf("holdfast:{r}")
		onTopology(t, "failover", topology{c.URL(), []*redistest.Server{m}, func() { c.FailOver(m) }})
	})
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		s := redistest.StartSentinel(t, durable)
		onTopology(t, "topologies", topology{url: s.URL()})
		onTopology(t, "failover", topology{s.URL(), []*redistest.Server{s.Master()}, func() { s.AwaitFailOver() }})
	})
	t.Run("quorum", func(t *testing.T) {
		t.Parallel()
		var nodes []*redistest.Server
		var urls []string
		for range 3 {
			s := redistest.Start(t, durable)
			nodes, urls = append(nodes, s), append(urls, s.URL())
		}
		onTopology(t, "topologies", topology{url: strings.Join(urls, ",")})
		onTopology(t, "quorum", topology{url: strings.Join(urls, ","), nodes: nodes})
	})
}

// topology is where scripts run.
type topology struct {
	url   string
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
	wrong := strings.ReplaceAll(on.url, "://", "://nobody:wr0ng@")
	testscript.Run(t, testscript.Params{
		Dir: "testdata/" + folder, RequireUniqueNames: true, RequireExplicitExec: true, Cmds: scriptCommands,
		Setup: func(e *testscript.Env) error {
			jobs := &jobs{running: map[string]*job{}}
			e.Defer(jobs.end)
			e.Values[jobsKey{}] = jobs
			e.Values[topologyKey{}], e.Values[stallsKey{}] = on, stalls
			for name, value := range map[string]string{"HOLDFAST_REDIS": on.url, "WRONG": wrong, "GORACE": "atexit_sleep_ms=0"} {
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
