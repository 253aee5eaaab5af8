package transcript

import (
	"maps"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Setting is a store on which transcripts run.
type Setting struct {
	URL   string
	Env   map[string]string   // besides HOLDFAST_STORE
	Nodes []*redistest.Server // that transcripts may break, by number, from 0
	// Failover waits until another server has taken over from Nodes[0].
	Failover func()
}

type (
	settingKey struct{}
	serverKey  struct{}
	jobsKey    struct{}
	stallsKey  struct{}
)

// Run runs the transcripts of a folder on a store, as a subtest, and waits for their end.
func (s Setting) Run(t *testing.T, folder string) {
	_, name, _ := strings.Cut(folder, "testdata/")
	t.Run(name, func(t *testing.T) {
		run(t, folder, nil, func(e *testscript.Env) error {
			e.Values[settingKey{}] = s
			e.Setenv("HOLDFAST_STORE", s.URL)
			for name, value := range s.Env {
				e.Setenv(name, value)
			}
			return nil
		})
	})
}

// OnRedis runs the transcripts of a folder in parallel, each on a redis-server of its own. They also have more commands.
func OnRedis(t *testing.T, folder string, more Commands) {
	run(t, folder, more, func(e *testscript.Env) error {
		s, err := redistest.Launch()
		if err != nil {
			return err
		}
		e.Defer(s.Stop)
		e.Values[serverKey{}] = s
		e.Setenv("HOLDFAST_REDIS", s.URL())
		e.Setenv("ADDR", s.Addr())
		return nil
	})
}

func run(t *testing.T, folder string, more Commands, setup func(*testscript.Env) error) {
	testscript.Run(t, params(t, folder, more, setup))
}

func params(t testing.TB, folder string, more Commands, setup func(*testscript.Env) error) testscript.Params {
	stalls := redistest.WatchStalls(t)
	all := maps.Clone(commands)
	maps.Copy(all, more)
	return testscript.Params{
		Dir: folder, RequireUniqueNames: true, RequireExplicitExec: true, Cmds: all,
		Setup: func(e *testscript.Env) error {
			jobs := &jobs{running: map[string]*job{}}
			e.Values[jobsKey{}], e.Values[stallsKey{}] = jobs, stalls
			// The race detector would delay the end of every process by a second.
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			err := setup(e)
			e.Defer(jobs.end)
			return err
		},
	}
}
