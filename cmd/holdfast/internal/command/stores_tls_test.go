package command

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/transcript"
	"github.com/holdfast-go/holdfast/internal/etcdservers"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
)

// TestStoresTLS runs testdata/stores/tls on servers with certificates for redis.test.
func TestStoresTLS(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "holdfast-tls-") // the servers may run as another user
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	to := certificates{
		check: func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		},
		path: func(name string) string { return filepath.Join(dir, name) },
	}
	to.certify("server", to.certify("ca", nil))
	scripts := func(t *testing.T, p transcript.Setting) {
		p.Env["CA"] = to.path("ca.crt")
		p.Run(t, "testdata/stores/tls")
	}
	t.Run("postgresql", func(t *testing.T) {
		t.Parallel()
		s := sqlservers.StartPostgreSQL(t)
		p := transcript.PostgreSQL(t, s)
		turnTLSOn(t, s, to)
		scripts(t, p)
	})
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		s := sqlservers.StartMySQL(t, sqlservers.WithSetting("ssl_cert", to.path("server.crt")), sqlservers.WithSetting("ssl_key", to.path("server.key")))
		scripts(t, transcript.MariaDB(t, s))
	})
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		scripts(t, transcript.OnStore("etcd://"+terminateTLS(t, etcdservers.Start(t, etcdservers.Config{}).Addr(), to), nil))
	})
}

// turnTLSOn gives a PostgreSQL server the certificate, where it expects it.
func turnTLSOn(t *testing.T, s *sqlservers.Server, from certificates) {
	t.Helper()
	owner, err := os.Stat(s.Dir())
	from.check(err)
	for _, name := range []string{"server.crt", "server.key"} {
		text, err := os.ReadFile(from.path(name))
		from.check(err)
		to := filepath.Join(s.Dir(), name)
		from.check(os.WriteFile(to, text, 0o600))
		id := owner.Sys().(*syscall.Stat_t)
		from.check(os.Chown(to, int(id.Uid), int(id.Gid)))
	}
	conn, err := pgx.Connect(t.Context(), s.DSN(""))
	from.check(err)
	defer conn.Close(t.Context())
	_, err = conn.Exec(t.Context(), "ALTER SYSTEM SET ssl = on")
	from.check(err)
	s.Restart()
}

// terminateTLS returns the address of a proxy that speaks TLS for a server.
func terminateTLS(t *testing.T, server string, from certificates) string {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(from.path("server.crt"), from.path("server.key"))
	from.check(err)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}})
	from.check(err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer client.Close()
				behind, err := net.Dial("tcp", server)
				if err != nil {
					return
				}
				defer behind.Close()
				go func() { _, _ = io.Copy(behind, client) }()
				_, _ = io.Copy(client, behind)
			}()
		}
	}()
	return l.Addr().String()
}
