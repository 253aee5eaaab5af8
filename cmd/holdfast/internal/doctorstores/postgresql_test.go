package doctorstores

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/postgres"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/sqlservers"
)

var databases atomic.Int32 // made so far

// pgPool connects to a database until the test ends.
func pgPool(t testing.TB, dsn string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	must(t, err)
	for _, f := range change {
		f(config)
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	must(t, err)
	t.Cleanup(pool.Close)
	return pool
}

func pgExec(t testing.TB, pool *pgxpool.Pool, statements ...string) {
	t.Helper()
	for _, sql := range statements {
		_, err := pool.Exec(context.Background(), sql)
		must(t, err)
	}
}

// pgDatabase makes a database with the table, and with settings of its own.
func pgDatabase(t testing.TB, s *sqlservers.Server, settings ...string) string {
	t.Helper()
	name := fmt.Sprint("doctor", databases.Add(1))
	admin := pgPool(t, s.DSN(""))
	pgExec(t, admin, "CREATE DATABASE "+name)
	must(t, postgres.Migrate(t.Context(), pgPool(t, s.DSN(name))))
	for _, set := range settings {
		pgExec(t, admin, "ALTER DATABASE "+name+" SET "+set)
	}
	return s.DSN(name)
}

func examinePostgreSQL(t testing.TB, pool *pgxpool.Pool) report {
	t.Helper()
	return PostgreSQL(t.Context(), subject(func() engine.Engine { return postgres.New(pool) }), pool)
}

func TestPostgreSQLAsItShouldBe(t *testing.T) {
	r := examinePostgreSQL(t, pgPool(t, pgDatabase(t, soundPostgreSQL.Get(t))))
	r.requireSound(t, "reach", "version", "mode", "clock", "durability", "connections", "replication", "isolation",
		"notifications", "schema", "rights", "bloat", "trial", "ttl")
	if ms, ok := r.require(t, "notifications", diagnosis.OK, "a NOTIFY arrives: median").Values["notify_median_ms"].(float64); !ok || ms <= 0 {
		t.Errorf("the time of a notification is %v", ms)
	}
}

// One connection is enough, and it returns to the pool.
func TestPostgreSQLByOneConnection(t *testing.T) {
	pool := pgPool(t, pgDatabase(t, soundPostgreSQL.Get(t)), func(c *pgxpool.Config) { c.MaxConns = 1 })
	examinePostgreSQL(t, pool).requireSound(t, "trial")
	if n := pool.Stat().AcquiredConns(); n != 0 {
		t.Errorf("%d connections stay in use", n)
	}
}

func TestPostgreSQLServerWithBadSettings(t *testing.T) {
	t.Parallel()
	s := sqlservers.StartPostgreSQL(t, sqlservers.WithSetting("full_page_writes", "off"), sqlservers.WithSetting("autovacuum", "off"),
		sqlservers.WithSetting("max_connections", "14")) // and fsync is off
	r := examinePostgreSQL(t, pgPool(t, pgDatabase(t, s)))
	r.require(t, "durability", diagnosis.Warn, "^fsync off: a crash of the machine forgets leases")
	r.require(t, "durability", diagnosis.Warn, "^full_page_writes off")
	r.require(t, "bloat", diagnosis.Warn, "autovacuum is off")
	r.require(t, "connections", diagnosis.Warn, `of at most 11 connections are in use \(max_connections\)`)
	r.requireWorst(t, diagnosis.None)
}

func TestPostgreSQLDatabaseWithBadSettings(t *testing.T) {
	r := examinePostgreSQL(t, pgPool(t, pgDatabase(t, soundPostgreSQL.Get(t), "synchronous_commit = off", "statement_timeout = '900ms'", "default_transaction_isolation = 'serializable'")))
	r.require(t, "durability", diagnosis.Warn, "^synchronous_commit off: a crash of the server forgets")
	r.require(t, "timeouts", diagnosis.Warn, "statement_timeout is 900ms")
	r.require(t, "isolation", diagnosis.OK, "serializable by default")
	r.require(t, "trial", diagnosis.OK, "handed off")

	r = examinePostgreSQL(t, pgPool(t, pgDatabase(t, soundPostgreSQL.Get(t), "default_transaction_read_only = on")))
	r.require(t, "mode", diagnosis.Fail, "transactions are read-only")
}

func TestPostgreSQLTable(t *testing.T) {
	server := soundPostgreSQL.Get(t)
	pool := pgPool(t, pgDatabase(t, server))
	check := func(status diagnosis.FindingStatus, pattern string, statements ...string) report {
		t.Helper()
		pgExec(t, pool, statements...)
		r := examinePostgreSQL(t, pool)
		r.require(t, "schema", status, pattern)
		return r
	}
	check(diagnosis.Warn, "is unlogged", "ALTER TABLE holdfast1_doc SET UNLOGGED")
	r := check(diagnosis.OK, "is there", "ALTER TABLE holdfast1_doc SET LOGGED", "ALTER TABLE holdfast1_doc RESET (fillfactor)", "ALTER TABLE holdfast1_doc SET (autovacuum_enabled = off)")
	r.require(t, "bloat", diagnosis.Warn, "no fillfactor of 50")
	r.require(t, "bloat", diagnosis.Warn, "autovacuum is off")
	check(diagnosis.Fail, `no unique or exclusion constraint`, "ALTER TABLE holdfast1_doc DROP CONSTRAINT holdfast1_doc_pkey").requireWorst(t, diagnosis.Misconfig)
	check(diagnosis.Fail, `column "keep_until" does not exist`, "ALTER TABLE holdfast1_doc DROP COLUMN keep_until").requireWorst(t, diagnosis.Misconfig)
	r = check(diagnosis.Fail, "holdfast1_doc is missing.*; there is holdfast0_doc, of another version", "ALTER TABLE holdfast1_doc RENAME TO holdfast0_doc")
	if f := r.require(t, "schema", diagnosis.Fail, ""); f.Remedy != "run holdfast migrate, or apply the SQL that it prints" {
		t.Errorf("the remedy is %q", f.Remedy)
	}
	r.requireWorst(t, diagnosis.Misconfig)
}

func TestPostgreSQLRights(t *testing.T) {
	server := soundPostgreSQL.Get(t)
	dsn := pgDatabase(t, server)
	admin := pgPool(t, dsn)
	pgExec(t, admin, "CREATE ROLE ann LOGIN", "GRANT SELECT, INSERT ON holdfast1_doc TO ann")
	ann := pgPool(t, dsn, func(c *pgxpool.Config) { c.ConnConfig.User = "ann" })
	r := examinePostgreSQL(t, ann)
	f := r.require(t, "rights", diagnosis.Fail, "^user ann may not UPDATE, DELETE$")
	r.requireWorst(t, diagnosis.Denied)
	pgExec(t, admin, f.Remedy)
	examinePostgreSQL(t, ann).requireSound(t, "rights", "trial")
}

func TestPostgreSQLOutOfReach(t *testing.T) {
	t.Parallel()
	s := sqlservers.StartPostgreSQL(t)
	r := examinePostgreSQL(t, pgPool(t, s.DSN(""), func(c *pgxpool.Config) { c.ConnConfig.User = "nobody" }))
	r.require(t, "reach", diagnosis.Fail, `refused: .*role "nobody" does not exist`)
	r.requireWorst(t, diagnosis.Denied)
	r = examinePostgreSQL(t, pgPool(t, s.DSN("nothing")))
	r.require(t, "reach", diagnosis.Fail, `refused: .*database "nothing" does not exist`)
	stalls := redistest.WatchStalls(t)
	begin := time.Now()
	s.Pause()
	r = examinePostgreSQL(t, pgPool(t, s.DSN("")))
	r.require(t, "reach", diagnosis.Fail, "no answer")
	r.requireWorst(t, diagnosis.Unreachable)
	stalls.Within(t, begin, 2*reachLimit, "a server that hangs")
	s.Kill()
	r = examinePostgreSQL(t, pgPool(t, s.DSN("")))
	r.require(t, "reach", diagnosis.Fail, "no answer: .*refused")
	if len(r) != 1 {
		t.Errorf("more is judged than was seen:\n%s", r)
	}
}

func TestPostgreSQLWithStandby(t *testing.T) {
	t.Parallel()
	primary := sqlservers.StartPostgreSQL(t)
	dsn := pgDatabase(t, primary)
	standby := primary.StartReplica(t)
	pool := pgPool(t, dsn)
	redistest.Await(t, 30*time.Second, "a standby", func() bool {
		var n int
		must(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'").Scan(&n))
		return n == 1
	})
	r := examinePostgreSQL(t, pool)
	r.require(t, "replication", diagnosis.Warn, "^1 standbys, none synchronous, at most .* bytes behind: a failover forgets")

	r = examinePostgreSQL(t, pgPool(t, standby.DSN("")))
	r.require(t, "mode", diagnosis.Fail, "this is a standby")
	r.requireWorst(t, diagnosis.Misconfig)

	both := fmt.Sprintf("postgres://test@%s,%s/%s?sslmode=disable", primary.Addr(), standby.Addr(), pool.Config().ConnConfig.Database)
	r = examinePostgreSQL(t, pgPool(t, both))
	r.require(t, "hosts", diagnosis.OK, "^1 primary, 1 standbys answer")
	r.require(t, "hosts", diagnosis.Warn, "no target_session_attrs")
	anyway := strings.TrimSuffix(both, "?sslmode=disable") // with TLS, and if the server has none, without
	examinePostgreSQL(t, pgPool(t, anyway)).require(t, "hosts", diagnosis.OK, "^1 primary, 1 standbys answer")
	poolers := fmt.Sprintf("postgres://test@%s,%s/%s?target_session_attrs=read-write&sslmode=disable", primary.StartPgBouncer(t, "session").Addr(), primary.StartPgBouncer(t, "session").Addr(), pool.Config().ConnConfig.Database)
	examinePostgreSQL(t, pgPool(t, poolers)).require(t, "hosts", diagnosis.OK, "^1 primary, 0 standbys answer")
	r.require(t, "clock", diagnosis.OK, "the clocks of the hosts are within")

	reload := func(setting string) {
		t.Helper()
		pgExec(t, pool, "ALTER SYSTEM SET "+setting, "SELECT pg_reload_conf()")
	}
	reload("synchronous_standby_names = '*'")
	redistest.Await(t, 30*time.Second, "a synchronous standby", func() bool {
		var n int
		must(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'").Scan(&n))
		return n == 1
	})
	r = examinePostgreSQL(t, pgPool(t, both+"&target_session_attrs=read-write"))
	r.require(t, "replication", diagnosis.OK, `^1 of 1 standbys have what is granted \(synchronous_standby_names "\*"`)
	for _, f := range r {
		if f.Check == "hosts" && f.Status != diagnosis.OK {
			t.Errorf("%+v", f)
		}
	}
	local := pgPool(t, dsn+"&synchronous_commit=local")
	examinePostgreSQL(t, local).require(t, "replication", diagnosis.Warn, "with synchronous_commit local commits do not wait")

	standby.Kill()
	r = examinePostgreSQL(t, pool)
	r.require(t, "replication", diagnosis.Fail, "none of . standbys is synchronous: every commit waits")
	r.requireWorst(t, diagnosis.Misconfig)
	r = examinePostgreSQL(t, pgPool(t, both+"&target_session_attrs=read-write"))
	if f := r.require(t, "hosts", diagnosis.Warn, "no answer"); f.Node != standby.Addr() {
		t.Errorf("it is %s that does not answer", f.Node)
	}
}

// What reads the WAL is no standby.
func TestPostgreSQLWithReadersOfTheWAL(t *testing.T) {
	t.Parallel()
	s := sqlservers.StartPostgreSQL(t, sqlservers.WithSetting("wal_level", "logical"))
	dsn := pgDatabase(t, s)
	pool := pgPool(t, dsn)
	const far = 1 << 62 // so that no commit waits
	reader := func(written, replayed uint64, commands ...string) {
		t.Helper()
		c, err := pgconn.Connect(t.Context(), dsn+"&replication=database&application_name=reader")
		must(t, err)
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		for _, sql := range commands {
			c.Frontend().SendQuery(&pgproto3.Query{String: sql})
			must(t, c.Frontend().Flush())
			for done := false; !done; {
				m, err := c.Frontend().Receive()
				must(t, err)
				switch m := m.(type) {
				case *pgproto3.ErrorResponse:
					t.Fatal(m.Message)
				case *pgproto3.CopyBothResponse, *pgproto3.ReadyForQuery:
					done = true
				}
			}
		}
		status := []byte{'r'}
		for _, v := range []uint64{written, written, replayed, 0} {
			status = binary.BigEndian.AppendUint64(status, v)
		}
		c.Frontend().Send(&pgproto3.CopyData{Data: append(status, 0)})
		must(t, c.Frontend().Flush())
	}
	reader(1, 1, "CREATE_REPLICATION_SLOT changes LOGICAL test_decoding", "START_REPLICATION SLOT changes LOGICAL 0/0")
	var at string
	must(t, pool.QueryRow(t.Context(), "SELECT pg_current_wal_lsn()::text").Scan(&at))
	reader(far, 0, "START_REPLICATION PHYSICAL "+at)
	await := func(condition string, want int) {
		t.Helper()
		redistest.Await(t, 30*time.Second, condition, func() bool {
			var n int
			must(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_replication WHERE "+condition).Scan(&n))
			return n == want
		})
	}
	await("flush_lsn IS NOT NULL", 2)
	examinePostgreSQL(t, pool).require(t, "replication", diagnosis.OK, "^no standby")
	pgExec(t, pool, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
	await("sync_state = 'sync'", 1)
	examinePostgreSQL(t, pool).require(t, "replication", diagnosis.Warn, "what is synchronous is no standby")
}

func TestPostgreSQLHostsCompared(t *testing.T) {
	p := &postgreSQL{}
	at := func(place string, ahead time.Duration) *pgHost {
		return &pgHost{Place: diagnosis.Place(place), clock: diagnosis.ClockReading{Known: true, Ahead: ahead}}
	}
	p.compare([]*pgHost{at("a:1", 0), at("b:2", 3*time.Second)})
	r := report(p.findings)
	r.require(t, "hosts", diagnosis.Fail, "^a:1 and b:2 are primaries")
	r.require(t, "clock", diagnosis.Warn, "^the clocks of a:1 and b:2 are 3s apart: a failover")
}

func TestPostgreSQLThroughPgBouncer(t *testing.T) {
	t.Parallel()
	server := sqlservers.StartPostgreSQL(t, sqlservers.WithFsync())
	dsn := pgDatabase(t, server)
	through := func(mode string) report {
		t.Helper()
		config, err := pgxpool.ParseConfig(dsn)
		must(t, err)
		pooler := server.StartPgBouncer(t, mode)
		return examinePostgreSQL(t, pgPool(t, pooler.DSN(config.ConnConfig.Database)))
	}
	r := through("transaction")
	f := r.require(t, "notifications", diagnosis.Warn, "does not arrive through the pooler")
	if f.Values["pooler"] != true {
		t.Errorf("values %v", f.Values)
	}
	r.require(t, "trial", diagnosis.Warn, "the wake-up of the next waiter did not come: a hand-off takes up to 1s")
	r.requireWorst(t, diagnosis.None)
	r = through("session")
	r.require(t, "notifications", diagnosis.OK, "a NOTIFY arrives, through a pooler")
	r.require(t, "trial", diagnosis.OK, "handed off")
}

func TestPostgreSQLBloat(t *testing.T) {
	for _, c := range []struct {
		state tableState
		found string
	}{
		{tableState{updates: 5000, hot: 100}, "^100 of 5000 updates were HOT"},
		{tableState{live: 10, dead: 30_000}, "^30000 dead rows beside 10 live ones"},
		{tableState{oldest: 2 * time.Hour}, "^a transaction has been open for 2h0m0s"},
	} {
		p := &postgreSQL{}
		c.state.options = []string{"fillfactor=50"}
		p.checkBloat(c.state)
		if len(p.findings) != 1 {
			t.Errorf("%+v: %s", c.state, report(p.findings))
		}
		report(p.findings).require(t, "bloat", diagnosis.Warn, c.found)
	}
}

func TestPostgreSQLConnectionLimit(t *testing.T) {
	dsn := pgDatabase(t, soundPostgreSQL.Get(t))
	admin := pgPool(t, dsn)
	pgExec(t, admin, "CREATE ROLE bob LOGIN CONNECTION LIMIT 9", "GRANT SELECT, INSERT, UPDATE, DELETE ON holdfast1_doc TO bob")
	r := examinePostgreSQL(t, pgPool(t, dsn, func(c *pgxpool.Config) { c.ConnConfig.User = "bob" }))
	r.require(t, "connections", diagnosis.Warn, `of at most 9 connections are in use \(the user's CONNECTION LIMIT\)`)
	r.require(t, "trial", diagnosis.OK, "")
}

func TestPostgreSQLNotificationQueue(t *testing.T) {
	p := &postgreSQL{}
	p.checkQueue(0.2)
	if len(p.findings) != 0 {
		t.Errorf("%s", report(p.findings))
	}
	p.checkQueue(0.5)
	report(p.findings).require(t, "notifications", diagnosis.Warn, "the server's queue of notifications is 50 % full")
}

func TestClock(t *testing.T) {
	for ahead, status := range map[time.Duration]diagnosis.FindingStatus{0: diagnosis.OK, 20 * time.Minute: diagnosis.Warn, -20 * time.Minute: diagnosis.Warn} {
		e := &examination{}
		e.clock(func() (time.Time, error) { return time.Now().Add(ahead), nil })
		report(e.findings).require(t, "clock", status, "this machine")
	}
	e := &examination{}
	e.clock(func() (time.Time, error) { return time.Time{}, errNoText })
	report(e.findings).require(t, "clock", diagnosis.Unknown, "ends the connection")
}

func TestPostgreSQLVersion(t *testing.T) {
	for number, status := range map[string]diagnosis.FindingStatus{"": diagnosis.Unknown, "110022": diagnosis.Fail, "120001": diagnosis.OK, "180004": diagnosis.OK} {
		p := &postgreSQL{settings: map[string]string{"server_version_num": number}}
		p.version()
		report(p.findings).require(t, "version", status, "")
	}
	p := &postgreSQL{settings: map[string]string{"server_version_num": "130000", "crdb_version": "CockroachDB CCL v24"}}
	p.version()
	report(p.findings).require(t, "version", diagnosis.Warn, "CockroachDB is not among")
}
