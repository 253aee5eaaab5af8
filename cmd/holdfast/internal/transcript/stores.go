package transcript

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-go/holdfast/internal/etcdservers"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
	"github.com/holdfast-go/holdfast/internal/zkservers"
)

// PostgreSQL returns a setting on a server: a database of a user who has a password, without the schema. In its
// environment WRONG has another password, WEAK another user, EMPTY and NOWHERE other databases.
func PostgreSQL(t testing.TB, s *sqlservers.Server) Setting {
	t.Helper()
	app := preparePostgres(t, s)
	return OnStore(app.at(s.Addr(), "locks"), map[string]string{
		"WRONG": user{"app", "wr0ng"}.at(s.Addr(), "locks"), "EMPTY": app.at(s.Addr(), "fresh"),
		"NOWHERE": app.at(s.Addr(), "nowhere"), "ADDR": s.Addr(), "WEAK": user{"weak", "s3cret"}.at(s.Addr(), "locks"),
	})
}

// MariaDB does the same.
func MariaDB(t testing.TB, s *sqlservers.Server) Setting {
	t.Helper()
	app := prepareMariaDB(t, s)
	at := func(u user, database string) string {
		return strings.Replace(u.at(s.Addr(), database), "postgres:", "mysql:", 1)
	}
	return OnStore(at(app, "locks"), map[string]string{
		"WRONG": at(user{"app", "wr0ng"}, "locks"), "EMPTY": at(app, "fresh"), "NOWHERE": at(app, "nowhere"),
		"ADDR": s.Addr(), "WEAK": at(user{"weak", "s3cret"}, "locks"),
	})
}

// SQLite returns a setting in a file, without the schema.
func SQLite(t testing.TB) Setting {
	dir := t.TempDir()
	return OnStore("sqlite://"+filepath.Join(dir, "a lock.db"), map[string]string{"EMPTY": "sqlite://" + filepath.Join(dir, "fresh.db"), "FOLDER": dir})
}

// Etcd returns a setting on an etcd of its own, with users.
func Etcd(t testing.TB) Setting {
	t.Helper()
	c := etcdservers.StartCluster(t, 1, etcdservers.Config{})
	prepareEtcd(t, c.Addrs())
	at := func(user string) string { return "etcd://" + user + strings.Join(c.Addrs(), ",") }
	return OnStore(at("app:s3cret@"), map[string]string{
		"WRONG": at("app:wr0ng@"), "NOBODY": at(""), "WEAK": at("weak:s3cret@"), "ADDR": c.Addrs()[0],
	})
}

// ZooKeeper returns a setting on a ZooKeeper of its own.
func ZooKeeper(t testing.TB) Setting {
	t.Helper()
	s := zkservers.Start(t)
	at := func(user string) string { return "zk://" + user + s.Addr() + "/apps/locks" }
	return OnStore(at("app:s3cret@"), map[string]string{"WRONG": at("app:wr0ng@"), "NOBODY": at(""), "ADDR": s.Addr(),
		"ONE": strings.Replace(at("app:s3cret@"), "@", "@a..b,c..d:7,", 1)})
}

// Mixed returns a quorum of a Redis and of a database beside that of each setting.
func Mixed(t testing.TB, postgres, mariadb Setting) Setting {
	t.Helper()
	urls := []string{redistest.Start(t, redistest.WithArgs("--appendonly", "yes", "--appendfsync", "always")).URL()}
	for _, p := range []Setting{postgres, mariadb} {
		urls = append(urls, strings.TrimSuffix(p.URL, "/locks")+"/mixed")
	}
	return OnStore(strings.Join(urls, ","), nil)
}

// OnStore returns a setting with an environment, for which the program has the drivers of all stores.
func OnStore(url string, env map[string]string) Setting {
	all := map[string]string{allDrivers: "1"}
	maps.Copy(all, env)
	return Setting{URL: url, Env: all}
}

// user is a user of a database, with a password.
type user struct{ name, password string }

func (u user) at(addr, database string) string {
	return (&url.URL{Scheme: "postgres", User: url.UserPassword(u.name, u.password), Host: addr, Path: "/" + database}).String()
}

// preparePostgres makes databases and users, who need a password.
func preparePostgres(t testing.TB, s *sqlservers.Server) user {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	hba := filepath.Join(s.Dir(), "pg_hba.conf")
	rules, err := os.ReadFile(hba)
	if err == nil {
		err = os.WriteFile(hba, append([]byte("host all app,weak 127.0.0.1/32 scram-sha-256\n"), rules...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{
		"SELECT pg_reload_conf()", "CREATE ROLE app LOGIN PASSWORD 's3cret'", "CREATE ROLE weak LOGIN PASSWORD 's3cret'",
		"CREATE DATABASE locks OWNER app", "CREATE DATABASE fresh OWNER app", "CREATE DATABASE mixed OWNER app",
	} {
		if _, err := conn.Exec(ctx, q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	return user{"app", "s3cret"}
}

// prepareMariaDB does the same.
func prepareMariaDB(t testing.TB, s *sqlservers.Server) user {
	t.Helper()
	db, err := sql.Open("mysql", s.DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, q := range []string{
		"CREATE DATABASE locks", "CREATE DATABASE fresh", "CREATE DATABASE mixed", "CREATE USER app@127.0.0.1 IDENTIFIED BY 's3cret'", "CREATE USER weak@127.0.0.1 IDENTIFIED BY 's3cret'",
		"GRANT ALL ON locks.* TO app@127.0.0.1", "GRANT ALL ON fresh.* TO app@127.0.0.1", "GRANT ALL ON mixed.* TO app@127.0.0.1", "GRANT ALL ON nowhere.* TO app@127.0.0.1", "GRANT SELECT ON locks.* TO weak@127.0.0.1",
	} {
		if _, err := db.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
	return user{"app", "s3cret"}
}

// prepareEtcd makes users, of whom weak has no rights, and turns authentication on.
func prepareEtcd(t testing.TB, addrs []string) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: addrs})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	var errs []error
	done := func(_ any, err error) { errs = append(errs, err) }
	for _, user := range []string{"root", "app", "weak"} {
		done(c.UserAdd(ctx, user, "s3cret"))
	}
	done(c.UserGrantRole(ctx, "root", "root"))
	done(c.RoleAdd(ctx, "locks"))
	done(c.RoleGrantPermission(ctx, "locks", "holdfast/", clientv3.GetPrefixRangeEnd("holdfast/"), clientv3.PermissionType(clientv3.PermReadWrite)))
	done(c.UserGrantRole(ctx, "app", "locks"))
	done(c.AuthEnable(ctx))
	for i, err := range errs {
		if err != nil {
			t.Fatal(fmt.Errorf("step %d: %w", i+1, err))
		}
	}
}
