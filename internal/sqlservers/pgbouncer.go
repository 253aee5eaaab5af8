//go:build unix

package sqlservers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// errNoPgBouncer names what to install. Tests fail with it and are not skipped.
var errNoPgBouncer = errors.New("PgBouncer is not installed (Debian and Ubuntu: apt-get install pgbouncer; " +
	"macOS: brew install pgbouncer), or run make test, which does so")

// StartPgBouncer starts a PgBouncer in front of a PostgreSQL server, in a pool mode, and ends it
// with the test.
func (s *Server) StartPgBouncer(t testing.TB, mode string, opts ...Option) *Server {
	t.Helper()
	k := postgreSQL()
	k.ready = "process up"
	k.end = syscall.SIGTERM
	k.install = func(*Server) error { return nil }
	k.serve = func(pooler *Server) (string, []string, error) {
		path, err := program("pgbouncer", "/usr/sbin", "/usr/local/sbin", "/opt/homebrew/bin")
		if err != nil {
			return "", nil, fmt.Errorf("%w (%w)", errNoPgBouncer, err)
		}
		lines := append([]string{
			"[databases]", "* = host=127.0.0.1 port=" + strconv.Itoa(s.port) + " user=test",
			"[pgbouncer]", "listen_addr = 127.0.0.1", "listen_port = " + strconv.Itoa(pooler.port), "unix_socket_dir =",
			"auth_type = any", "pool_mode = " + mode,
		}, pooler.conf.settings...)
		file := filepath.Join(pooler.dir, "pgbouncer.ini")
		return path, []string{file}, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644)
	}
	return start(t, k, opts...)
}
