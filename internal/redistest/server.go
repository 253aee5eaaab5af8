// Package redistest starts real redis-server processes for tests, and injects faults into them and
// into the network in front of them.
//
// A Server is a process on a free loopback port with an empty folder; it can be stopped, resumed,
// killed and restarted. A Proxy is a TCP relay inside the test process that delays, holds or cuts
// bytes, or loses the reply of one chosen command. A Cluster and a Sentinel are groups of servers,
// with failovers and migrations of slots.
//
// The environment variable HOLDFAST_REDIS_SERVER names a program other than redis-server, such as
// valkey-server. HOLDFAST_REDIS_VERSION is the version that it must have: a server with another
// version does not start.
//
// The package is for tests only: nothing that users import may import it.
package redistest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
)

// Server is a redis-server process that a test owns. Its methods may be called
// from any goroutine. A method that fails fails the test, or panics if the server
// is from Launch. Without WithAppendOnly, Kill loses its data.
type Server struct {
	Process
	conf config
	dir  string
	port int

	mu      sync.Mutex
	clients []*redis.Client
}

// programEnv names the program to start instead of redis-server, and versionEnv the version that it
// must have.
const (
	programEnv = "HOLDFAST_REDIS_SERVER"
	versionEnv = "HOLDFAST_REDIS_VERSION"
)

// errNoServer names what to install. Tests fail with it and are not skipped.
var errNoServer = errors.New("redis-server is not in PATH: install it (Debian and Ubuntu: apt-get install redis-server; " +
	"macOS: brew install redis), or run make test, which does so")

// Start launches a server for one test and ends it, and every client made by
// Client, when the test ends. It fails the test if there is no redis-server.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	s, err := Launch(opts...)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s.Test = t
	t.Cleanup(s.Stop)
	return s
}

// Launch starts a server that several tests share, for a TestMain. The caller must call Stop.
//
// Launch also disables the log of go-redis in this process, which would have thousands of lines
// about connections that tests break.
func Launch(opts ...Option) (*Server, error) {
	logging.Disable()
	s := &Server{}
	for _, o := range opts {
		o(&s.conf)
	}
	path, err := exec.LookPath(cmp.Or(s.conf.path, os.Getenv(programEnv), "redis-server"))
	if err != nil {
		return nil, errNoServer
	}
	dir, err := DataDir("redistest-")
	if err != nil {
		return nil, err
	}
	standIn := s.conf.path != ""
	s.conf.path, s.dir = path, dir
	err = OnFreePorts(1, func(ports []int) error {
		s.port = ports[0]
		return s.Start(s.launch)
	})
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	if want := os.Getenv(versionEnv); want != "" && !standIn {
		if got := s.version(); got != want {
			s.Stop()
			return nil, fmt.Errorf("%s is Redis %q, and %s requires %q", path, got, versionEnv, want)
		}
	}
	return s, nil
}

// Addr returns the server's host:port. It stays the same over restarts.
func (s *Server) Addr() string { return loopback(s.port) }

// URL returns the server's address as redis://[:password@]host:port.
func (s *Server) URL() string {
	if s.conf.password != "" {
		return "redis://:" + s.conf.password + "@" + s.Addr()
	}
	return "redis://" + s.Addr()
}

// Dir returns the folder in which the server keeps its data, for tests that
// copy and restore it.
func (s *Server) Dir() string { return s.dir }

// Clock returns the server's wall clock, of WithClockRate.
func (s *Server) Clock() RatedClock {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conf.clock
}

// Client returns a new client with a pool of its own and go-redis's default
// options, changed by the given functions. It is closed when the server ends.
func (s *Server) Client(change ...func(*redis.Options)) *redis.Client {
	o := &redis.Options{Addr: s.Addr(), Password: s.conf.password}
	for _, f := range change {
		f(o)
	}
	c := redis.NewClient(o)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, c)
	return c
}

// Restart starts the server again with the same port, folder and arguments,
// after killing it if it runs, and waits until it answers.
func (s *Server) Restart() { s.Process.Restart(s.launch) }

func (s *Server) launch() (Run, error) {
	conf := s.conf
	conf.clock = s.Clock()
	run, err := conf.launch(s.dir, s.port)
	if err != nil || conf.clock.gain == 0 {
		return run, err
	}
	if err := s.adjust(); err != nil {
		run.Kill()
		return nil, err
	}
	return run, nil
}

// Stop closes the clients made by Client, kills the server and removes its
// folder.
func (s *Server) Stop() {
	s.mu.Lock()
	clients := s.clients
	s.clients = nil
	s.mu.Unlock()
	s.Kill()
	for _, c := range clients {
		_ = c.Close() // the test may have closed it already
	}
	_ = os.RemoveAll(s.dir)
}

// do calls f with a new client, so that it works even if the test has exhausted or closed others.
func (s *Server) do(ctx context.Context, f func(context.Context, *redis.Client) error) error {
	c := redis.NewClient(&redis.Options{Addr: s.Addr(), Password: s.conf.password, PoolSize: 1})
	err := f(ctx, c)
	return errors.Join(err, c.Close())
}

// Option changes how a server is started.
type Option func(*config)

// WithArgs adds arguments for redis-server, such as "--maxmemory", "1mb". The
// last one wins, so they can replace the defaults.
func WithArgs(args ...string) Option {
	return func(c *config) { c.args = append(c.args, slices.Clone(args)...) }
}

// WithAppendOnly keeps the data over Kill and Restart, in an append-only file.
func WithAppendOnly() Option { return WithArgs("--appendonly", "yes") }

// WithPassword requires a password of clients; Client and URL have it.
func WithPassword(password string) Option {
	return func(c *config) {
		c.password = password
		c.args = append(c.args, "--requirepass", password)
	}
}
