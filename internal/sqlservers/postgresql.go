//go:build unix

package sqlservers

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"testing"
)

// errNoPostgreSQL names what to install. Tests fail with it and are not skipped.
var errNoPostgreSQL = errors.New("PostgreSQL's server is not installed (Debian and Ubuntu: apt-get install postgresql; " +
	"macOS: brew install postgresql), or run make test, which does so")

// StartPostgreSQL starts a server for one test and ends it with the test. The administrator
// is "test". It fails the test if PostgreSQL is not installed.
func StartPostgreSQL(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return start(t, postgreSQL(), opts...)
}

// LaunchPostgreSQL starts a server for several tests. The caller must call Stop.
func LaunchPostgreSQL(opts ...Option) (*Server, error) { return launch(postgreSQL(), opts...) }

func postgreSQL() kind {
	return kind{
		users: []string{"postgres", "nobody"},
		ready: "ready to accept",
		ask:   []byte{0, 0, 0, 8, 4, 210, 22, 47}, // is there TLS? N
		end:   syscall.SIGINT,                     // a fast shutdown
		install: func(s *Server) error {
			initdb, err := postgresProgram("initdb")
			if err != nil {
				return err
			}
			return s.prepare(initdb, "-D", s.Dir(), "-U", "test", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
		},
		serve: servePostgres,
		dsn: func(addr, database string) string {
			return fmt.Sprintf("postgres://test@%s/%s?sslmode=disable", addr, cmp.Or(database, "postgres"))
		},
	}
}

func servePostgres(s *Server) (path string, args []string, err error) {
	if path, err = postgresProgram("postgres"); err != nil {
		return "", nil, err
	}
	fsync := "off"
	if s.conf.fsync {
		fsync = "on"
	}
	settings := []string{
		"listen_addresses=127.0.0.1", "port=" + strconv.Itoa(s.port), "unix_socket_directories=",
		"fsync=" + fsync, "max_connections=100",
	}
	args = []string{"-D", s.Dir()}
	for _, each := range append(settings, s.conf.settings...) {
		args = append(args, "-c", each)
	}
	return path, args, nil
}

func postgresProgram(name string) (string, error) {
	path, err := program(name, "/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")
	if err != nil {
		return "", fmt.Errorf("%w (%w)", errNoPostgreSQL, err)
	}
	return path, nil
}
