//go:build unix

package etcdservers

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// startTimeout bounds a start on a busy machine; a start takes about half a second.
const startTimeout = 60 * time.Second

// Config is what tests choose of a server, the same for every restart.
type Config struct {
	Quota int64 // of the database, in bytes; 0 is etcd's default
	Fsync bool  // write to disk before a change is answered, with the data on a disk and not in memory; what the kernel has survives a killed process
}

// Server is one member of an etcd. A method that cannot do its work fails the test, or panics if the server came from
// Launch.
type Server struct {
	redistest.Process
	argument struct {
		Config
		Name, Dir    string
		Client, Peer string // host:port
		Members      string // all, as name=URL
	}
	path string // of etcdmember
}

// Start starts an etcd of one member and ends it with the test.
func Start(t testing.TB, c Config) *Server {
	t.Helper()
	return StartCluster(t, 1, c)[0]
}

// StartCluster starts an etcd of n members and ends it with the test.
func StartCluster(t testing.TB, n int, c Config) Cluster {
	t.Helper()
	all, err := Launch(n, c)
	if err != nil {
		t.Fatalf("etcdservers: %v", err)
	}
	for _, s := range all {
		s.Test = t
	}
	t.Cleanup(all.Stop)
	return all
}

// Launch starts an etcd for several tests. The caller must call Stop.
func Launch(n int, c Config) (Cluster, error) {
	return launch(n, c, func(Cluster) error { return nil })
}

// launch calls prepare before it starts the members.
func launch(n int, c Config, prepare func(Cluster) error) (all Cluster, err error) {
	path, err := redistest.Tool("internal/etcdservers/etcdmember")
	if err != nil {
		return nil, err
	}
	err = redistest.OnFreePorts(2*n, func(ports []int) error {
		if all, err = newCluster(path, ports, c); err == nil {
			err = prepare(all)
		}
		if err == nil {
			err = redistest.StartAll(n, func(i int) error { return all[i].Start(all[i].run) })
		}
		if err != nil {
			all.Stop()
		}
		return err
	})
	return all, err
}

// Addr returns the host:port for clients.
func (s *Server) Addr() string { return s.argument.Client }

// StartCopy copies the data of the only member while it is stopped, as a power failure would leave them, and starts
// a second one on the copy, for one test. What the system had not written to the disk yet is in the copy too.
func (s *Server) StartCopy(t testing.TB) *Server {
	t.Helper()
	all, err := launch(1, s.argument.Config, func(other Cluster) error {
		s.Pause()
		defer s.Resume()
		return exec.Command("cp", "-a", s.argument.Dir+"/.", other[0].argument.Dir).Run()
	})
	if err != nil {
		t.Fatalf("etcdservers: a copy: %v", err)
	}
	all[0].Test = t
	t.Cleanup(all.Stop)
	return all[0]
}

// run starts the process and waits until the member serves.
func (s *Server) run() (redistest.Run, error) {
	text, err := json.Marshal(s.argument)
	if err != nil {
		return nil, err
	}
	return redistest.StartChild(exec.Command(s.path, string(text)), startTimeout, func() bool { return true }, "ready\n")
}

// Leads reports whether this member is the leader.
func (s *Server) Leads() bool {
	client := http.Client{Timeout: time.Second}
	resp, err := client.Get("http://" + s.Addr() + "/metrics")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	defer client.CloseIdleConnections()
	text, err := io.ReadAll(resp.Body)
	return err == nil && strings.Contains(string(text), "\netcd_server_is_leader 1\n")
}

// Restart kills the process if it runs, and starts the server on its data. It returns when the server serves.
func (s *Server) Restart() { s.Process.Restart(s.run) }

// Cluster is the members of one etcd.
type Cluster []*Server

func newCluster(path string, ports []int, c Config) (all Cluster, err error) {
	addr := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	var names []string
	for i := range len(ports) / 2 {
		s := &Server{path: path}
		a := &s.argument
		if a.Dir, err = dataDir(c); err != nil {
			return all, err
		}
		a.Config, a.Name, a.Client, a.Peer = c, fmt.Sprintf("m%d", i), addr(ports[2*i]), addr(ports[2*i+1])
		names = append(names, fmt.Sprintf("%s=http://%s", a.Name, a.Peer))
		all = append(all, s)
	}
	for _, s := range all {
		s.argument.Members = strings.Join(names, ",")
	}
	return all, nil
}

func dataDir(c Config) (string, error) {
	if c.Fsync {
		return os.MkdirTemp("", "etcd-")
	}
	return redistest.DataDir("etcd-")
}

// Addrs returns the host:port of each member.
func (c Cluster) Addrs() []string {
	var addrs []string
	for _, s := range c {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// Leader returns the member that leads. It waits for an election.
func (c Cluster) Leader(t testing.TB) *Server {
	t.Helper()
	var leader *Server
	redistest.Await(t, 20*time.Second, "a leader", func() bool {
		for _, s := range c {
			if s.PID() != 0 && s.Leads() {
				leader = s
				return true
			}
		}
		return false
	})
	return leader
}

// Stop ends the members and removes their data.
func (c Cluster) Stop() {
	for _, s := range c {
		s.Kill()
		_ = os.RemoveAll(s.argument.Dir)
	}
}
