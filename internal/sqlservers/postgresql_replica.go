//go:build unix

package sqlservers

import (
	"net"
	"strconv"
	"testing"
)

// StartReplica starts a streaming replica of a PostgreSQL server for one test. SELECT
// pg_promote() on it makes it a primary.
func (s *Server) StartReplica(t testing.TB, opts ...Option) *Server {
	t.Helper()
	k := postgreSQL()
	k.install = func(replica *Server) error {
		backup, err := postgresProgram("pg_basebackup")
		if err != nil {
			return err
		}
		host, _, err := net.SplitHostPort(s.Addr())
		if err != nil {
			return err
		}
		return replica.prepare(backup, "-h", host, "-p", strconv.Itoa(s.port), "-U", "test",
			"-D", replica.Dir(), "-R", "-X", "stream", "-c", "fast", "--no-sync")
	}
	return start(t, k, opts...)
}
