//go:build unix

package sqlservers

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"
)

// errNoMariaDB names what to install. Tests fail with it and are not skipped.
var errNoMariaDB = errors.New("MariaDB's server is not installed (Debian and Ubuntu: apt-get install mariadb-server; " +
	"macOS: brew install mariadb), or run make test, which does so")

// StartMySQL starts a server for one test and ends it with the test: MariaDB, or the MySQL
// that the environment variable HOLDFAST_MYSQL_SERVER names. The administrator is "root".
// It fails the test if MariaDB is not installed.
func StartMySQL(t testing.TB, opts ...Option) *Server {
	t.Helper()
	return start(t, mySQLOrMariaDB(), opts...)
}

// LaunchMySQL starts such a server for several tests. The caller must call Stop.
func LaunchMySQL(opts ...Option) (*Server, error) { return launch(mySQLOrMariaDB(), opts...) }

func mySQLOrMariaDB() kind {
	if path := os.Getenv(mysqlEnv); path != "" {
		return mySQL(path)
	}
	return mariaDB()
}

func mariaDB() kind {
	return kind{
		users: []string{"mysql", "nobody"},
		ready: "ready for connections",
		end:   syscall.SIGTERM,
		install: func(s *Server) error {
			path, err := mariaProgram("mariadb-install-db", "/usr/sbin", "/usr/local/bin")
			if err != nil {
				return err
			}
			return s.prepare(path, "--no-defaults", "--datadir="+s.Dir(), "--auth-root-authentication-method=normal", "--skip-test-db")
		},
		serve: serveMaria,
		dsn: func(addr, database string) string {
			return fmt.Sprintf("root@tcp(%s)/%s", addr, cmp.Or(database, "mysql"))
		},
	}
}

func serveMaria(s *Server) (path string, args []string, err error) {
	if path, err = mariaProgram("mariadbd", "/usr/sbin", "/usr/libexec", "/usr/local/sbin"); err != nil {
		return "", nil, err
	}
	args = []string{
		"--no-defaults", "--datadir=" + s.Dir(), "--bind-address=127.0.0.1", "--port=" + strconv.Itoa(s.port),
		"--socket=" + s.dir + "/socket", "--pid-file=" + s.dir + "/pid",
		"--innodb-flush-log-at-trx-commit=" + flushAtCommit(s), "--innodb-buffer-pool-size=32M",
	}
	return path, append(args, s.variables()...), nil
}

func flushAtCommit(s *Server) string {
	if s.conf.fsync {
		return "1"
	}
	return "0"
}

// variables returns the settings of the test as options.
func (s *Server) variables() []string {
	var all []string
	for _, each := range s.conf.settings {
		all = append(all, "--"+each)
	}
	return all
}

func mariaProgram(name string, folders ...string) (string, error) {
	path, err := program(name, folders...)
	if err != nil {
		return "", fmt.Errorf("%w (%w)", errNoMariaDB, err)
	}
	return path, nil
}
