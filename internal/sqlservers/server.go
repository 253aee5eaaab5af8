//go:build unix

package sqlservers

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Server is a database server that a test owns. Its methods may be called from any
// goroutine. A method that cannot do its work fails the test, or panics if the server came
// from a Launch function.
type Server struct {
	redistest.Process
	kind kind
	conf config
	dir  string
	port int
	as   account
}

// kind is what differs between the servers.
type kind struct {
	users []string       // as which root runs it
	ready string         // what it logs when it accepts connections
	ask   []byte         // what it answers on a new connection; nil: it sends a greeting
	end   syscall.Signal // ends it in order, whatever clients are connected
	// install makes the first files, and serve returns the command of the server.
	install func(s *Server) error
	serve   func(s *Server) (path string, args []string, err error)
	dsn     func(addr, database string) string
}

// config is what options set.
type config struct {
	settings []string // name=value
	fsync    bool
	fileKiB  int // 0: files may be of any size
}

// Option changes how a server is started.
type Option func(*config)

// WithSetting sets a variable of the server's configuration, such as "max_connections" to
// "20". The last one wins, so that it can replace a default of this package.
func WithSetting(name, value string) Option {
	return func(c *config) { c.settings = append(c.settings, name+"="+value) }
}

// WithFsync makes each commit wait for the disk, and keeps the data on a disk and not in
// memory. By default commits do not: the data outlive Kill, but not the machine.
func WithFsync() Option { return func(c *config) { c.fsync = true } }

// WithFileLimit limits the size of each file that the server writes, in KiB, as a full disk does.
func WithFileLimit(kib int) Option { return func(c *config) { c.fileKiB = kib } }

// Addr returns the server's host:port. It stays the same over restarts.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Dir returns the folder of the server's data.
func (s *Server) Dir() string { return filepath.Join(s.dir, "data") }

// DSN returns how the administrator connects to a database without a password: for
// PostgreSQL a URL, for MariaDB what go-sql-driver takes. "" is the database that is
// there from the start.
func (s *Server) DSN(database string) string { return s.DSNAt(s.Addr(), database) }

// DSNAt is DSN by way of another address, as of a proxy.
func (s *Server) DSNAt(addr, database string) string { return s.kind.dsn(addr, database) }

// Terminate ends the server in order, as an operator does, with its sessions; after 10 s it is
// killed.
func (s *Server) Terminate() {
	s.End(func(run redistest.Run) { run.(*process).terminate(s.kind.end) })
}

// Restart starts the server again with the same port, data and settings, after killing it
// if it runs, and waits until it accepts connections.
func (s *Server) Restart() { s.Process.Restart(s.launch) }

// Stop ends the server and removes its data.
func (s *Server) Stop() {
	s.Terminate()
	_ = os.RemoveAll(s.dir)
}

// StartCopy copies the data of a running server while all its processes are stopped, as a
// power failure would leave them, and starts a second server on the copy, for one test. What the
// system had not written to the disk yet is in the copy too.
func (s *Server) StartCopy(t testing.TB) *Server {
	t.Helper()
	k := s.kind
	k.install = func(other *Server) error {
		s.Pause()
		defer s.Resume()
		if err := exec.Command("cp", "-a", s.Dir(), other.Dir()).Run(); err != nil {
			return fmt.Errorf("cp -a: %w", err)
		}
		err := os.Remove(filepath.Join(other.Dir(), "postmaster.pid")) // PostgreSQL's lock on its folder
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	return start(t, k, func(c *config) { *c = s.conf })
}

// launch installs and starts a server.
func launch(k kind, opts ...Option) (*Server, error) {
	s := &Server{kind: k}
	for _, o := range opts {
		o(&s.conf)
	}
	var err error
	if s.as, err = accountOf(k.users...); err != nil {
		return nil, err
	}
	if s.dir, err = s.makeDir(); err != nil {
		return nil, err
	}
	if err = k.install(s); err == nil {
		err = redistest.OnFreePorts(1, func(ports []int) error {
			s.port = ports[0]
			return s.Start(s.launch)
		})
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(s.dir))
	}
	return s, nil
}

// start is launch for one test.
func start(t testing.TB, k kind, opts ...Option) *Server {
	t.Helper()
	s, err := launch(k, opts...)
	if err != nil {
		t.Fatalf("sqlservers: %v", err)
	}
	s.Test = t
	t.Cleanup(s.Stop)
	return s
}

func (s *Server) makeDir() (dir string, err error) {
	pattern := "sqlservers-"
	if s.conf.fsync {
		dir, err = os.MkdirTemp("", pattern)
	} else {
		dir, err = redistest.DataDir(pattern)
	}
	if err == nil && s.as.set {
		if err = os.Chown(dir, int(s.as.uid), int(s.as.gid)); err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}
	return dir, err
}

// launch starts the server on its port.
func (s *Server) launch() (redistest.Run, error) {
	l, err := net.Listen("tcp", s.Addr())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", redistest.ErrPortTaken, err)
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	path, args, err := s.kind.serve(s)
	if err != nil {
		return nil, err
	}
	if s.conf.fileKiB > 0 {
		args = append([]string{"-c", fmt.Sprintf(`trap "" XFSZ && ulimit -f %d && exec "$0" "$@"`, s.conf.fileKiB), path}, args...)
		path = "bash"
	}
	return s.run(path, args...)
}

// startTimeout bounds what takes a second or two on a quiet machine.
const startTimeout = 60 * time.Second
