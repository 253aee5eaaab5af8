package doctorstores

import (
	"database/sql"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/mysql"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
)

// soundMySQL is the MariaDB, or MySQL, of the tests that do not harm it.
var soundMySQL = sqlservers.Share(sqlservers.LaunchMySQL, sqlservers.WithFsync())

func mysqlOpen(t testing.TB, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func mysqlExec(t testing.TB, db *sql.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// mysqlDatabase makes a database with the tables, and returns its data source name.
func mysqlDatabase(t testing.TB, s *sqlservers.Server) string {
	t.Helper()
	name := fmt.Sprint("doctor", databases.Add(1))
	mysqlExec(t, mysqlOpen(t, s.DSN("mysql")), "CREATE DATABASE "+name)
	must(t, mysql.Migrate(t.Context(), mysqlOpen(t, s.DSN(name))))
	return s.DSN(name)
}

func examineMySQL(t testing.TB, dsn string) report {
	t.Helper()
	db := mysqlOpen(t, dsn)
	return MySQL(t.Context(), subject(func() engine.Engine { return mysql.New(db) }), db)
}

func TestMySQLAsItShouldBe(t *testing.T) {
	r := examineMySQL(t, mysqlDatabase(t, soundMySQL.Get(t)))
	r.requireSound(t, "reach", "version", "mode", "clock", "durability", "replication", "isolation", "connections", "schema", "rights", "bloat", "trial", "ttl")
	if f := r.require(t, "trial", diagnosis.OK, "handed off in"); f.Values["hand_off_ms"].(float64) <= 0 {
		t.Errorf("values %v", f.Values)
	}
}

func TestMySQLServerWithBadSettings(t *testing.T) {
	t.Parallel()
	s := sqlservers.StartMySQL(t, sqlservers.WithSetting("log-bin", "log"), sqlservers.WithSetting("sync-binlog", "0"), sqlservers.WithSetting("skip-innodb-doublewrite", "1"),
		sqlservers.WithSetting("max-allowed-packet", "1M"), sqlservers.WithSetting("wait-timeout", "20"), sqlservers.WithSetting("max-connections", "10"))
	dsn := mysqlDatabase(t, s)
	taken := mysqlOpen(t, dsn)
	for range 7 {
		c, err := taken.Conn(t.Context())
		must(t, err)
		defer c.Close()
	}
	r := examineMySQL(t, dsn)
	r.require(t, "durability", diagnosis.Warn, "^innodb_flush_log_at_trx_commit 0: a crash of the machine forgets")
	r.require(t, "durability", diagnosis.Warn, "^sync_binlog 0")
	r.require(t, "durability", diagnosis.Warn, "^innodb_doublewrite off")
	r.require(t, "packets", diagnosis.Warn, "^max_allowed_packet 1048576")
	r.require(t, "connections", diagnosis.Warn, "^wait_timeout 20")
	r.require(t, "connections", diagnosis.Warn, "of at most 10 connections are in use")
	r.requireWorst(t, diagnosis.None)
}

func TestMySQLModes(t *testing.T) {
	t.Parallel()
	s := sqlservers.StartMySQL(t)
	dsn := mysqlDatabase(t, s)
	r := examineMySQL(t, dsn+"?autocommit=0")
	r.require(t, "isolation", diagnosis.Fail, "autocommit is off")
	r.requireWorst(t, diagnosis.Misconfig)
	mysqlExec(t, mysqlOpen(t, dsn), "SET GLOBAL read_only = 1")
	r = examineMySQL(t, dsn)
	r.require(t, "mode", diagnosis.Fail, "^read_only: the server takes no changes")
	r.requireWorst(t, diagnosis.Misconfig)
}

func TestMySQLTables(t *testing.T) {
	t.Parallel()
	dsn := mysqlDatabase(t, sqlservers.StartMySQL(t, sqlservers.WithFsync())) // MySQL has no Aria
	db := mysqlOpen(t, dsn)
	for _, c := range []struct{ statement, found string }{
		{"ALTER TABLE holdfast1_document ENGINE = Aria", "the table holdfast1_document is kept by Aria"},
		{"ALTER TABLE holdfast1_document ENGINE = InnoDB, DROP PRIMARY KEY", `the table holdfast1_document has no index on \(k\)`},
		{"ALTER TABLE holdfast1_document ADD PRIMARY KEY (k), DROP COLUMN until", "is not the one of Holdfast: .*Unknown column 'until'"},
		{"ALTER TABLE holdfast1_document ADD COLUMN until BIGINT NOT NULL", ""},
		{"ALTER TABLE holdfast1_wake DROP KEY address", `the table holdfast1_wake has no index on \(address,seq\)`},
		{"DROP TABLE holdfast1_wake", "the table holdfast1_wake is missing"},
	} {
		mysqlExec(t, db, c.statement)
		if r := examineMySQL(t, dsn); c.found == "" {
			r.require(t, "schema", diagnosis.OK, "")
		} else {
			r.require(t, "schema", diagnosis.Fail, c.found)
			r.requireWorst(t, diagnosis.Misconfig)
		}
	}
}

func TestMySQLRights(t *testing.T) {
	s := soundMySQL.Get(t)
	dsn := mysqlDatabase(t, s)
	admin := mysqlOpen(t, dsn)
	mysqlExec(t, admin, "CREATE USER ann@'127.0.0.1'", "GRANT SELECT, INSERT ON holdfast1_document TO ann@'127.0.0.1'", "GRANT SELECT, INSERT, DELETE ON holdfast1_wake TO ann@'127.0.0.1'")
	ann := "ann" + dsn[len("root"):]
	r := examineMySQL(t, ann)
	f := r.require(t, "rights", diagnosis.Fail, "^user ann@127.0.0.1 may not UPDATE on holdfast1_document, DELETE on holdfast1_document$")
	r.requireWorst(t, diagnosis.Denied)
	mysqlExec(t, admin, f.Remedy)
	examineMySQL(t, ann).requireSound(t, "rights", "trial", "replication")
}

func TestMySQLOutOfReach(t *testing.T) {
	t.Parallel()
	s := sqlservers.StartMySQL(t)
	r := examineMySQL(t, "nobody@tcp("+s.Addr()+")/mysql")
	r.require(t, "reach", diagnosis.Fail, "refused: .*Access denied for user 'nobody'")
	r.requireWorst(t, diagnosis.Denied)
	examineMySQL(t, s.DSN("nothing")).require(t, "reach", diagnosis.Fail, "refused: .*Unknown database 'nothing'")
	stalls := redistest.WatchStalls(t)
	begin := time.Now()
	s.Pause()
	r = examineMySQL(t, s.DSN(""))
	r.require(t, "reach", diagnosis.Fail, "no answer")
	r.requireWorst(t, diagnosis.Unreachable)
	stalls.Within(t, begin, 2*reachLimit, "a server that hangs")
	s.Kill()
	if r = examineMySQL(t, s.DSN("")); len(r) != 1 {
		t.Errorf("more is judged than was seen:\n%s", r)
	}
	r.require(t, "reach", diagnosis.Fail, "no answer: .*refused")
}

func TestMySQLReplicas(t *testing.T) {
	t.Parallel()
	primary := sqlservers.StartMySQL(t, sqlservers.WithSetting("log-bin", "log"), sqlservers.WithSetting("server-id", "1"), sqlservers.WithSetting("sync-binlog", "1"))
	replica := sqlservers.StartMySQL(t, sqlservers.WithSetting("log-bin", "log"), sqlservers.WithSetting("server-id", "2"), sqlservers.WithSetting("sync-binlog", "1"))
	dsn := mysqlDatabase(t, primary)
	_, port, err := net.SplitHostPort(primary.Addr())
	must(t, err)
	there, here := mysqlOpen(t, replica.DSN("mysql")), mysqlOpen(t, dsn)
	mysqlExec(t, there, "SET GLOBAL rpl_semi_sync_slave_enabled = 1",
		"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = "+port+", MASTER_USER = 'root', MASTER_USE_GTID = slave_pos, MASTER_CONNECT_RETRY = 1", "START SLAVE")
	await := func(name, value string) {
		t.Helper()
		redistest.Await(t, 30*time.Second, name, func() bool {
			var n, v string
			must(t, here.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE '"+name+"'").Scan(&n, &v))
			return v == value
		})
	}
	await("Slaves_connected", "1")
	examineMySQL(t, dsn).require(t, "replication", diagnosis.Warn, "^1 replicas, asynchronous: a failover forgets")

	r := examineMySQL(t, replica.DSN("mysql"))
	r.require(t, "mode", diagnosis.Fail, "this is a replica that takes changes")
	r.requireWorst(t, diagnosis.Misconfig)

	_, port, err = net.SplitHostPort(replica.Addr())
	must(t, err)
	mysqlExec(t, here, "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = "+port+", MASTER_USER = 'root', MASTER_CONNECT_RETRY = 1", "START SLAVE")
	redistest.Await(t, 30*time.Second, "a channel back", func() bool {
		var n, v string
		must(t, there.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'Slaves_connected'").Scan(&n, &v))
		return v == "1"
	})
	for _, dsn := range []string{dsn, replica.DSN("mysql")} {
		examineMySQL(t, dsn).require(t, "mode", diagnosis.Warn, "master to master")
	}
	mysqlExec(t, here, "STOP SLAVE")
	examineMySQL(t, dsn).require(t, "mode", diagnosis.Warn, "has copied another one, and has stopped")
	mysqlExec(t, here, "RESET SLAVE ALL")
	examineMySQL(t, dsn).require(t, "mode", diagnosis.OK, "no replica")

	mysqlExec(t, here, "SET GLOBAL rpl_semi_sync_master_enabled = 1", "SET GLOBAL rpl_semi_sync_master_timeout = 500")
	mysqlExec(t, there, "STOP SLAVE", "START SLAVE")
	await("Rpl_semi_sync_master_clients", "1")
	mysqlExec(t, here, "CREATE TABLE x (i INT)")
	await("Rpl_semi_sync_master_status", "ON")
	examineMySQL(t, dsn).require(t, "replication", diagnosis.OK, "^1 replicas acknowledge before a commit is answered .*after 500 ms")

	replica.Kill()
	mysqlExec(t, here, "INSERT INTO x VALUES (1)")
	await("Rpl_semi_sync_master_status", "OFF")
	examineMySQL(t, dsn).require(t, "replication", diagnosis.Warn, "^semi-synchronous replication has switched itself off")
}

func TestMySQLVersion(t *testing.T) {
	for version, status := range map[string]diagnosis.FindingStatus{
		"": diagnosis.Unknown, "10.1.48-MariaDB": diagnosis.Fail, "10.11.19-MariaDB-0+deb12u1": diagnosis.OK, "12.1.2-MariaDB": diagnosis.OK, "5.6.51": diagnosis.Fail, "5.7.44": diagnosis.Warn, "8.0.15": diagnosis.OK, "9.1.0": diagnosis.OK,
	} {
		m := &mySQL{variables: map[string]string{}}
		if version != "" {
			m.variables["version"] = version
		}
		m.version()
		report(m.findings).require(t, "version", status, "")
	}
}

func TestMySQLBloat(t *testing.T) {
	for _, c := range []struct {
		state undoState
		found string
	}{
		{undoState{history: 2_000_000}, "^2000000 old versions"},
		{undoState{oldest: time.Hour}, "^a transaction has been open for 1h0m0s"},
		{undoState{messages: 200_000}, "^about 200000 messages"},
	} {
		m := &mySQL{}
		m.checkBloat(c.state)
		if len(m.findings) != 1 {
			t.Errorf("%+v: %s", c.state, report(m.findings))
		}
		report(m.findings).require(t, "bloat", diagnosis.Warn, c.found)
	}
}

// The age of a transaction does not depend on the time zone of the session.
func TestMySQLAgeOfATransaction(t *testing.T) {
	dsn := mysqlDatabase(t, soundMySQL.Get(t))
	tx, err := mysqlOpen(t, dsn).BeginTx(t.Context(), nil)
	must(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(t.Context(), "INSERT INTO holdfast1_wake (at, address, body) VALUES (1, 'a', 'b')")
	must(t, err)
	for _, zone := range []string{"%2B09:00", "-09:00"} {
		m := &mySQL{db: mysqlOpen(t, dsn+"?time_zone=%27"+zone+"%27")}
		if age := m.oldest(t.Context()).Abs(); age > 5*time.Minute {
			t.Errorf("in the time zone %s the transaction is %v old", zone, age)
		}
	}
}

func TestMySQLGalera(t *testing.T) {
	on := map[string]string{"wsrep_on": "ON", "wsrep_sync_wait": "0"}
	m := &mySQL{variables: on, status: map[string]string{"wsrep_cluster_status": "non-Primary", "wsrep_cluster_size": "2", "wsrep_local_state_comment": "Initialized"}}
	m.galera()
	r := report(m.findings)
	r.require(t, "galera", diagnosis.Fail, "cut off from the majority")
	r.require(t, "galera", diagnosis.Warn, "not in step")
	r.require(t, "galera", diagnosis.Warn, "wsrep_sync_wait 0")
	r.require(t, "galera", diagnosis.Warn, "2 nodes tolerate no more failures than 1")
	m = &mySQL{variables: map[string]string{"wsrep_on": "ON", "wsrep_sync_wait": "1"},
		status: map[string]string{"wsrep_cluster_status": "Primary", "wsrep_cluster_size": "3", "wsrep_local_state_comment": "Synced"}}
	m.galera()
	report(m.findings).requireSound(t, "galera")
}
