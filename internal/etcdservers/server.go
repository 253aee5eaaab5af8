//go:build unix

package etcdservers

import (
	"encoding/json"
	"errors"
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

// portTries is on how many ports servers are tried of which one ends while it starts: another process may have
// taken its port.
const portTries = 3

// Config is what tests choose of a server, the same for every restart.
type Config struct {
	Quota int64 // of the database, in bytes; 0 is etcd's default
	Fsync bool  // write to disk before a change is answered, with the data on a disk and not in memory; what the kernel has survives a killed process
}

// Server is one member of an etcd. Only one goroutine at a time may change its state. A method that cannot do its
// work fails the test, or panics if the server came from Launch.
type Server struct {
	argument struct {
		Config
		Name, Dir    string
		Client, Peer string // host:port
		Members      string // all, as name=URL
	}
	path    string           // of etcdmember
	process *redistest.Child // nil: not running
	fatal   func(format string, args ...any)
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
		s.fatal = t.Fatalf
	}
	t.Cleanup(all.Stop)
	return all
}

// Launch starts an etcd for several tests. The caller must call Stop.
func Launch(n int, c Config) (Cluster, error) {
	for try := 1; ; try++ {
		all, err := newCluster(n, c)
		if err == nil {
			if err = all.run(); err == nil {
				return all, nil
			}
		}
		all.Stop()
		if try == portTries || !errors.Is(err, redistest.ErrEnded) {
			return nil, err
		}
	}
}

// Addr returns the host:port for clients.
func (s *Server) Addr() string { return s.argument.Client }

// PID returns the process ID of a running server.
func (s *Server) PID() int { return s.process.PID() }

// StartCopy copies the data of the only member while it is stopped, as a power failure would leave them, and starts
// a second one on the copy, for one test. What the system had not written to the disk yet is in the copy too.
func (s *Server) StartCopy(t testing.TB) *Server {
	t.Helper()
	all, err := newCluster(1, s.argument.Config)
	t.Cleanup(all.Stop)
	if err == nil {
		all[0].fatal = t.Fatalf
		s.Pause()
		err = exec.Command("cp", "-a", s.argument.Dir+"/.", all[0].argument.Dir).Run()
		s.Resume()
	}
	if err == nil {
		err = all.run()
	}
	if err != nil {
		t.Fatalf("etcdservers: a copy: %v", err)
	}
	return all[0]
}

// start starts the process and does not wait for it.
func (s *Server) start() error {
	text, err := json.Marshal(s.argument)
	if err != nil {
		return err
	}
	s.process, err = redistest.StartChild(exec.Command(s.path, string(text)), "ready\n")
	return err
}

// awaitReady waits until the member serves.
func (s *Server) awaitReady() error {
	return s.process.Await(startTimeout, func() bool { return true })
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

// Pause stops the process; Resume continues it.
func (s *Server) Pause() {
	if err := s.process.Pause(); err != nil {
		s.fatal("etcdservers: pause: %v", err)
	}
}

// Resume continues a paused process.
func (s *Server) Resume() {
	if err := s.process.Resume(); err != nil {
		s.fatal("etcdservers: resume: %v", err)
	}
}

// Kill ends the process as kill -9 does.
func (s *Server) Kill() {
	if s.process != nil {
		s.process.Kill()
		s.process = nil
	}
}

// Restart kills the process if it runs, and starts the server on its data. It returns when the server serves.
func (s *Server) Restart() {
	s.Kill()
	err := s.start()
	if err == nil {
		err = s.awaitReady()
	}
	if err != nil {
		s.fatal("etcdservers: restart: %v", err)
	}
}

// Cluster is the members of one etcd.
type Cluster []*Server

func newCluster(n int, c Config) (Cluster, error) {
	path, err := redistest.Tool("internal/etcdservers/etcdmember")
	if err != nil {
		return nil, err
	}
	ports, err := redistest.FreePorts(2 * n)
	if err != nil {
		return nil, err
	}
	addr := func(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
	var all Cluster
	var names []string
	for i := range n {
		s := &Server{path: path, fatal: panicf}
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

// run starts the members and waits until all serve.
func (c Cluster) run() error {
	for _, s := range c {
		if err := s.start(); err != nil {
			return err
		}
	}
	for _, s := range c {
		if err := s.awaitReady(); err != nil {
			return err
		}
	}
	return nil
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
			if s.process != nil && s.Leads() {
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

func panicf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
