//go:build unix

package zkservers

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Ensemble is several servers that replicate each other.
type Ensemble struct{ servers []*Server }

// StartEnsemble starts n servers with lines of zoo.cfg besides the usual ones, and ends them with the test.
func StartEnsemble(t testing.TB, n int, settings ...string) *Ensemble {
	t.Helper()
	e, err := LaunchEnsemble(n, settings...)
	if err != nil {
		t.Fatalf("zkservers: %v", err)
	}
	for _, s := range e.servers {
		s.Test = t
	}
	t.Cleanup(e.Stop)
	return e
}

// LaunchEnsemble starts n servers for several tests. The caller must call Stop.
func LaunchEnsemble(n int, settings ...string) (e *Ensemble, err error) {
	err = redistest.OnFreePorts(3*n, func(ports []int) error {
		e, err = launchEnsemble(n, ports, settings)
		return err
	})
	return e, err
}

// launchEnsemble starts n servers on three ports each.
func launchEnsemble(n int, ports []int, settings []string) (*Ensemble, error) {
	settings = slices.Clone(settings)
	for i := range n {
		settings = append(settings, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", i+1, ports[n+2*i], ports[n+2*i+1]))
	}
	e := &Ensemble{}
	for i := range n {
		s, err := newServer(settings...)
		if err == nil {
			s.port = ports[i]
			e.servers = append(e.servers, s)
			err = s.identify(i + 1)
		}
		if err != nil {
			e.Stop()
			return nil, err
		}
	}
	if err := redistest.StartAll(n, func(i int) error { return e.servers[i].Start(e.servers[i].run) }); err != nil {
		e.Stop()
		return nil, err
	}
	return e, nil
}

// identify writes the number of a server of an ensemble.
func (s *Server) identify(id int) error {
	data := filepath.Join(s.dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(data, "myid"), []byte(strconv.Itoa(id)), 0o600)
}

// Stop ends the servers and removes their data.
func (e *Ensemble) Stop() {
	for _, s := range e.servers {
		s.Stop()
	}
}

// Servers returns the servers.
func (e *Ensemble) Servers() []*Server { return e.servers }

// Addrs returns the host:port of each server.
func (e *Ensemble) Addrs() []string {
	var addrs []string
	for _, s := range e.servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// Leader returns the server that leads now. It fails the test if none does.
func (e *Ensemble) Leader(t testing.TB) *Server {
	t.Helper()
	var modes []string
	for _, s := range e.servers {
		mode := s.Mode()
		if mode == "leader" {
			return s
		}
		modes = append(modes, mode)
	}
	t.Fatalf("zkservers: no leader: %q", strings.Join(modes, ", "))
	return nil
}
