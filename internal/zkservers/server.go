//go:build unix

package zkservers

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// startTimeout bounds a start on a busy machine; a start takes about a second.
const startTimeout = 60 * time.Second

// portTries is on how many ports a server is tried that ends while it starts. It may be that another process has
// taken its port, which without a logger it does not say.
const portTries = 3

// Server is a ZooKeeper server. Only one goroutine at a time may change its state. A method that cannot do its
// work fails the test, or panics if the server came from Launch.
type Server struct {
	dir      string
	port     int
	settings []string         // lines of zoo.cfg
	process  *redistest.Child // nil: not running
	fatal    func(format string, args ...any)
}

// Start starts a server with lines of zoo.cfg besides the usual ones, and ends it with the test.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := Launch(settings...)
	if err != nil {
		t.Fatalf("zkservers: %v", err)
	}
	s.fatal = t.Fatalf
	t.Cleanup(s.Stop)
	return s
}

// Launch starts a server for several tests. The caller must call Stop.
func Launch(settings ...string) (*Server, error) {
	for try := 1; ; try++ {
		s, err := newServer(settings...)
		if err != nil {
			return nil, err
		}
		err = s.run()
		if err == nil {
			return s, nil
		}
		s.Stop()
		if try == portTries || !errors.Is(err, redistest.ErrEnded) {
			return nil, err
		}
	}
}

// StartCopy copies the data of a running server while it is stopped, as a power failure would leave them, and starts a
// second server on the copy, for one test. What the system had not written to the disk yet is in the copy too.
func (s *Server) StartCopy(t testing.TB) *Server {
	t.Helper()
	other, err := newServer(s.settings...)
	if err != nil {
		t.Fatalf("zkservers: %v", err)
	}
	t.Cleanup(other.Stop)
	other.fatal = t.Fatalf
	s.Pause()
	err = exec.Command("cp", "-a", filepath.Join(s.dir, "data"), other.dir).Run()
	s.Resume()
	if err == nil {
		err = other.run()
	}
	if err != nil {
		t.Fatalf("zkservers: a copy: %v", err)
	}
	return other
}

// newServer makes the folder of a server and finds a port. It does not start it.
func newServer(settings ...string) (*Server, error) {
	dir, err := redistest.DataDir("zookeeper-")
	if err != nil {
		return nil, err
	}
	ports, err := redistest.FreePorts(1)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Server{dir: dir, port: ports[0], settings: settings, fatal: panicf}, nil
}

func panicf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// Addr returns the host:port for clients.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// PID returns the process ID of a running server.
func (s *Server) PID() int { return s.process.PID() }

// run starts the process and waits until the server serves.
func (s *Server) run() error {
	if err := s.launch(); err != nil {
		return err
	}
	return s.awaitServing()
}

// launch starts the process.
func (s *Server) launch() error {
	lines := append([]string{
		"dataDir=" + filepath.Join(s.dir, "data"), "clientPortAddress=127.0.0.1", "clientPort=" + strconv.Itoa(s.port),
		"tickTime=200", "initLimit=50", "syncLimit=10", "minSessionTimeout=400", "maxSessionTimeout=60000", "maxClientCnxns=0",
		"admin.enableServer=false", "4lw.commands.whitelist=*", "snapshot.trust.empty=true",
	}, s.settings...)
	config := filepath.Join(s.dir, "zoo.cfg")
	if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	var err error
	s.process, err = launch(s.dir, config)
	return err
}

// awaitServing waits until the server serves clients.
func (s *Server) awaitServing() error {
	return s.process.Await(startTimeout, func() bool { return s.Mode() != "" })
}

// Mode returns standalone, leader or follower, or "" if the server does not serve.
func (s *Server) Mode() string {
	if m := regexp.MustCompile(`Mode: (\w+)`).FindStringSubmatch(s.ask("srvr")); m != nil {
		return m[1]
	}
	return ""
}

// Zxid returns the number of the latest transaction, or 0 if the server does not serve.
func (s *Server) Zxid() int64 {
	m := regexp.MustCompile(`Zxid: (0x[0-9a-f]+)`).FindStringSubmatch(s.ask("srvr"))
	if m == nil {
		return 0
	}
	zxid, _ := strconv.ParseInt(m[1], 0, 64) // it matches
	return zxid
}

// ask returns the reply to a four letter word, or "" if there is none.
func (s *Server) ask(word string) string {
	const limit = time.Second
	conn, err := net.DialTimeout("tcp", s.Addr(), limit)
	if err != nil {
		return ""
	}
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(limit)) != nil {
		return ""
	}
	if _, err := conn.Write([]byte(word)); err != nil {
		return ""
	}
	text, _ := io.ReadAll(conn)
	return string(text)
}

// Pause stops the process; Resume continues it.
func (s *Server) Pause() { s.act("pause", s.process.Pause) }

// Resume continues a paused process.
func (s *Server) Resume() { s.act("resume", s.process.Resume) }

func (s *Server) act(what string, f func() error) {
	if err := f(); err != nil {
		s.fatal("zkservers: %s: %v", what, err)
	}
}

// Kill ends the process as kill -9 does.
func (s *Server) Kill() { s.process.Kill() }

// Restart kills the process if it runs, and starts the server on its data. It returns when the server serves.
func (s *Server) Restart() {
	s.Kill()
	s.act("restart", func() error {
		if err := os.Rename(s.moved(), s.data()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return s.run()
	})
}

// MoveData renames the folder with the data of a running server, as if it could not be written any more, until Restart.
func (s *Server) MoveData(t testing.TB) {
	t.Helper()
	if err := os.Rename(s.data(), s.moved()); err != nil {
		t.Fatalf("zkservers: %v", err)
	}
}

// data returns the folder of snapshots and logs.
func (s *Server) data() string { return filepath.Join(s.dir, "data", "version-2") }

func (s *Server) moved() string { return s.data() + ".moved" }

// Stop ends the process and removes its data.
func (s *Server) Stop() {
	if s.process != nil {
		s.process.Kill()
	}
	_ = os.RemoveAll(s.dir) // what stays is in a temporary folder
}
