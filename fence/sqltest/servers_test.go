package sqltest

import (
	"errors"
	"fmt"
	"strconv"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"
)

// What to install; tests fail with it rather than skip.
var (
	errNoPostgres = errors.New("PostgreSQL's server is not installed (Debian and Ubuntu: apt-get install postgresql; " +
		"macOS: brew install postgresql), or run make test, which does so")
	errNoMariaDB = errors.New("MariaDB's server is not installed (Debian and Ubuntu: apt-get install mariadb-server; " +
		"macOS: brew install mariadb), or run make test, which does so")
)

func postgresDSN(port int, database string) string {
	return fmt.Sprintf("postgres://test@127.0.0.1:%d/%s?sslmode=disable", port, database)
}

func startPostgres() (*daemon, error) {
	folders := []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin"}
	initdb, err1 := program("initdb", folders...)
	postgres, err2 := program("postgres", folders...)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("%w (%w)", errNoPostgres, err)
	}
	who, err := accountOf("postgres", "nobody")
	if err != nil {
		return nil, err
	}
	d, err := newDaemon(who)
	if err != nil {
		return nil, err
	}
	data := d.dir + "/data"
	err = d.prepare(who, initdb, "-D", data, "-U", "test", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	if err == nil {
		err = d.serve(who, "pgx", postgresDSN(d.port, "postgres"), postgres, "-D", data,
			"-c", "listen_addresses=127.0.0.1", "-c", "port="+strconv.Itoa(d.port), "-c", "unix_socket_directories=",
			"-c", "fsync=off", "-c", "max_connections=100")
	}
	if err != nil {
		d.stop()
		return nil, err
	}
	return d, nil
}

func mariaDSN(port int, database string) string {
	return fmt.Sprintf("root@tcp(127.0.0.1:%d)/%s", port, database)
}

func startMariaDB() (*daemon, error) {
	install, err1 := program("mariadb-install-db", "/usr/sbin", "/usr/local/bin")
	mariadbd, err2 := program("mariadbd", "/usr/sbin", "/usr/libexec", "/usr/local/sbin")
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("%w (%w)", errNoMariaDB, err)
	}
	who, err := accountOf("mysql", "nobody")
	if err != nil {
		return nil, err
	}
	d, err := newDaemon(who)
	if err != nil {
		return nil, err
	}
	data := "--datadir=" + d.dir + "/data"
	err = d.prepare(who, install, "--no-defaults", data, "--auth-root-authentication-method=normal", "--skip-test-db")
	if err == nil {
		err = d.serve(who, "mysql", mariaDSN(d.port, "mysql"), mariadbd, "--no-defaults", data,
			"--bind-address=127.0.0.1", "--port="+strconv.Itoa(d.port), "--socket="+d.dir+"/socket",
			"--pid-file="+d.dir+"/pid", "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M")
	}
	if err != nil {
		d.stop()
		return nil, err
	}
	return d, nil
}
