//go:build unix

package zkservers

import (
	"errors"
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

// Server is a ZooKeeper server. A method that cannot do its work fails the test, or panics if the server came from Launch.
type Server struct {
	redistest.Process
	dir      string
	port     int
	settings []string // lines of zoo.cfg
}

// Start starts a server with lines of zoo.cfg besides the usual ones, and ends it with the test.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	s, err := Launch(settings...)
	if err != nil {
		t.Fatalf("zkservers: %v", err)
	}
	s.Test = t
	t.Cleanup(s.Stop)
	return s
}

// Launch starts a server for several tests. The caller must call Stop.
func Launch(settings ...string) (*Server, error) {
	s, err := newServer(settings...)
	if err != nil {
		return nil, err
	}
	if err := s.startAnywhere(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
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
	other.Test = t
	s.Pause()
	err = exec.Command("cp", "-a", filepath.Join(s.dir, "data"), other.dir).Run()
	s.Resume()
	if err == nil {
		err = other.startAnywhere()
	}
	if err != nil {
		t.Fatalf("zkservers: a copy: %v", err)
	}
	return other
}

// newServer makes the folder of a server. It does not start it.
func newServer(settings ...string) (*Server, error) {
	dir, err := redistest.DataDir("zookeeper-")
	return &Server{dir: dir, settings: settings}, err
}

func (s *Server) startAnywhere() error {
	return redistest.OnFreePorts(1, func(ports []int) error {
		s.port = ports[0]
		return s.Start(s.run)
	})
}

// Addr returns the host:port for clients.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// LogDir returns the folder of the server's logs of transactions.
func (s *Server) LogDir() string { return filepath.Join(s.dir, "data", "version-2") }

// run starts the process and waits until the server serves.
func (s *Server) run() (redistest.Run, error) {
	lines := append([]string{
		"dataDir=" + filepath.Join(s.dir, "data"), "clientPortAddress=127.0.0.1", "clientPort=" + strconv.Itoa(s.port),
		"tickTime=200", "initLimit=50", "syncLimit=10", "minSessionTimeout=400", "maxSessionTimeout=60000", "maxClientCnxns=0",
		"admin.enableServer=false", "4lw.commands.whitelist=*", "snapshot.trust.empty=true",
	}, s.settings...)
	config := filepath.Join(s.dir, "zoo.cfg")
	if err := os.WriteFile(config, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	cmd, err := command(s.dir, config)
	if err != nil {
		return nil, err
	}
	return redistest.StartChild(cmd, startTimeout, func() bool { return s.Mode() != "" })
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

// Restart kills the process if it runs, and starts the server on its data. It returns when the server serves.
func (s *Server) Restart() {
	s.Kill()
	if err := os.Rename(s.moved(), s.data()); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.Test.Fatalf("zkservers: %v", err) // only a test moves it
	}
	s.Process.Restart(s.run)
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
	s.Kill()
	_ = os.RemoveAll(s.dir) // what stays is in a temporary folder
}
