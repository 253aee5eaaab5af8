package stores

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/engine/mysql"
	"github.com/holdfast-go/holdfast/engine/postgres"
	"github.com/holdfast-go/holdfast/engine/sqlite"
	"github.com/holdfast-go/holdfast/internal/etcdservers"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
	"github.com/holdfast-go/holdfast/internal/zkservers"
)

// setUp bounds the creation of tables.
const setUp = time.Minute

// sqlServer is a server of databases with its tables.
type sqlServer struct {
	*sqlservers.Server
	url string
}

// URL implements Server.
func (s sqlServer) URL() string { return s.url }

func launchPostgres() (Server, error) {
	s, err := sqlservers.LaunchPostgreSQL(sqlservers.WithSetting("max_connections", "400")) // seven a client
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), setUp)
	defer cancel()
	pool, err := pgxpool.New(ctx, s.DSN(""))
	if err == nil {
		defer pool.Close()
		err = postgres.Migrate(ctx, pool)
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return sqlServer{s, s.DSN("")}, nil
}

func launchMySQL() (Server, error) {
	s, err := sqlservers.LaunchMySQL()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), setUp)
	defer cancel()
	if err := prepareMySQL(ctx, s); err != nil {
		s.Stop()
		return nil, err
	}
	return sqlServer{s, "mysql://root@" + s.Addr() + "/" + mysqlDatabase}, nil
}

// mysqlDatabase has the tables. It is not the system's own, where triggers are refused.
const mysqlDatabase = "lab"

// prepareMySQL makes the database and its tables.
func prepareMySQL(ctx context.Context, s *sqlservers.Server) error {
	system, err := sql.Open("mysql", s.DSN(""))
	if err != nil {
		return err
	}
	defer system.Close()
	if _, err := system.ExecContext(ctx, "CREATE DATABASE "+mysqlDatabase); err != nil {
		return err
	}
	db, err := sql.Open("mysql", s.DSN(mysqlDatabase))
	if err != nil {
		return err
	}
	defer db.Close()
	return mysql.Migrate(ctx, db)
}

// sqliteFile is a file that processes of this machine share. What it suffers is a foreign
// process that holds its lock.
type sqliteFile struct {
	dir string
	db  *sql.DB
	tx  *sql.Conn // nil: none is open
}

func launchSQLite() (Server, error) {
	dir, err := redistest.DataDir("sqlite-")
	if err != nil {
		return nil, err
	}
	f := &sqliteFile{dir: dir}
	ctx, cancel := context.WithTimeout(context.Background(), setUp)
	defer cancel()
	f.db, err = sql.Open("sqlite", "file:"+f.path()+"?_pragma=busy_timeout(60000)")
	if err == nil {
		err = sqlite.Migrate(ctx, f.db)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return f, nil
}

func (f *sqliteFile) path() string { return filepath.Join(f.dir, "locks.db") }

// URL implements Server.
func (f *sqliteFile) URL() string { return (&url.URL{Scheme: "sqlite", Path: f.path()}).String() }

// Pause begins a foreign transaction that writes.
func (f *sqliteFile) Pause() {
	conn, err := f.db.Conn(context.Background())
	if err == nil {
		_, err = conn.ExecContext(context.Background(), "BEGIN IMMEDIATE")
	}
	if err != nil {
		panic(fmt.Sprintf("stores: a foreign writer: %v", err))
	}
	f.tx = conn
}

// Resume ends it.
func (f *sqliteFile) Resume() {
	if f.tx == nil {
		return
	}
	_, err := f.tx.ExecContext(context.Background(), "ROLLBACK")
	if err = errors.Join(err, f.tx.Close()); err != nil {
		panic(fmt.Sprintf("stores: a foreign writer: %v", err))
	}
	f.tx = nil
}

// Kill ends the foreign process.
func (f *sqliteFile) Kill() { f.Resume() }

// Restart does nothing: a file does not run.
func (f *sqliteFile) Restart() {}

// Stop implements Server.
func (f *sqliteFile) Stop() {
	f.Resume()
	_ = f.db.Close()
	_ = os.RemoveAll(f.dir)
}

// member is a server that may be one of several.
type member interface {
	Addr() string
	Kill()
	Pause()
	Resume()
	Restart()
}

// ensemble is servers that replicate each other. The one that leads is harmed.
type ensemble[M member] struct {
	scheme  string
	members []M
	leads   func(M) bool
	stop    func()

	harmed M
	down   bool
}

// URL implements Server.
func (e *ensemble[M]) URL() string {
	var addrs []string
	for _, m := range e.members {
		addrs = append(addrs, m.Addr())
	}
	return e.scheme + "://" + strings.Join(addrs, ",")
}

// leader returns the member that leads now, or any if none does.
func (e *ensemble[M]) leader() M {
	for _, m := range e.members {
		if len(e.members) == 1 || e.leads(m) {
			return m
		}
	}
	return e.members[0]
}

// Kill implements Server.
func (e *ensemble[M]) Kill() {
	e.harmed = e.leader()
	e.harmed.Kill()
	e.down = true
}

// Pause implements Server.
func (e *ensemble[M]) Pause() {
	e.harmed = e.leader()
	e.harmed.Pause()
}

// Resume implements Server.
func (e *ensemble[M]) Resume() { e.harmed.Resume() }

// Restart implements Server.
func (e *ensemble[M]) Restart() {
	if !e.down {
		e.harmed = e.leader()
	}
	e.harmed.Restart()
	e.down = false
}

// Stop implements Server.
func (e *ensemble[M]) Stop() { e.stop() }

func launchEtcd(members int) func() (Server, error) {
	return func() (Server, error) {
		all, err := etcdservers.Launch(members, etcdservers.Config{})
		if err != nil {
			return nil, err
		}
		return &ensemble[*etcdservers.Server]{scheme: "etcd", members: all, leads: (*etcdservers.Server).Leads, stop: all.Stop}, nil
	}
}

// zooKeeper is a server that is alone: only then its log has all changes that were committed, and no other.
type zooKeeper struct {
	*ensemble[*zkservers.Server]
}

// LogDir implements Logged.
func (z zooKeeper) LogDir() string { return z.members[0].LogDir() }

func launchZooKeeper() (Server, error) {
	s, err := zkservers.Launch()
	if err != nil {
		return nil, err
	}
	return zooKeeper{&ensemble[*zkservers.Server]{scheme: "zk", members: []*zkservers.Server{s}, stop: s.Stop}}, nil
}

func launchZooKeepers(members int) func() (Server, error) {
	return func() (Server, error) {
		all, err := zkservers.LaunchEnsemble(members)
		if err != nil {
			return nil, err
		}
		leads := func(s *zkservers.Server) bool { return s.Mode() == "leader" }
		return &ensemble[*zkservers.Server]{scheme: "zk", members: all.Servers(), leads: leads, stop: all.Stop}, nil
	}
}
