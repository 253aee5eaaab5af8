//go:build unix

package sqlservers

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// mysqlEnv names a program of MySQL's server, which then runs instead of MariaDB's, such as
// the one that .ci/mysql fetches.
const mysqlEnv = "HOLDFAST_MYSQL_SERVER"

// mySQL is what differs from MariaDB.
func mySQL(path string) kind {
	k := mariaDB()
	own := func(s *Server, more ...string) []string {
		// The files of the messages and character sets are beside the program.
		base := filepath.Dir(filepath.Dir(path))
		return append([]string{"--no-defaults", "--basedir=" + base, "--datadir=" + s.Dir()}, more...)
	}
	k.install = func(s *Server) error {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("the program in %s: %w", mysqlEnv, err)
		}
		return s.prepare(path, own(s, "--initialize-insecure")...)
	}
	k.serve = func(s *Server) (string, []string, error) {
		args := own(s, "--mysqlx=OFF", "--bind-address=127.0.0.1", "--port="+strconv.Itoa(s.port),
			"--socket="+s.dir+"/socket", "--pid-file="+s.dir+"/pid", "--skip-log-bin",
			"--innodb-flush-log-at-trx-commit="+flushAtCommit(s), "--innodb-buffer-pool-size=32M")
		return path, append(args, s.variables()...), nil
	}
	return k
}
