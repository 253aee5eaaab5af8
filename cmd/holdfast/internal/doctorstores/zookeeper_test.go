package doctorstores

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/engine"
	zkengine "github.com/holdfast-go/holdfast/engine/zookeeper"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/zkservers"
)

// quiet drops what a connection logs.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

func examineZooKeeper(t testing.TB, o diagnosis.Options, addrs []string, change ...func(*zk.Conn)) report {
	t.Helper()
	conn, _, err := zk.Connect(addrs, 4*time.Second, zk.WithLogger(quiet{}))
	must(t, err)
	defer conn.Close()
	for _, f := range change {
		f(conn)
	}
	s := subject(func() engine.Engine { return zkengine.New(conn) })
	s.Options = o
	return ZooKeeper(t.Context(), s, conn, addrs, "/holdfast")
}

func TestZooKeeperAsItShouldBe(t *testing.T) {
	t.Parallel()
	e := zkservers.StartEnsemble(t, 3)
	o := subject(nil).Options
	r := examineZooKeeper(t, o, e.Addrs())
	r.requireSound(t, "reach", "quorum", "version", "sessions", "durability", "clock", "trial", "ttl")
	r.require(t, "quorum", diagnosis.OK, "^3 of 3 servers serve, 2 are needed")
	r.require(t, "sessions", diagnosis.OK, "^session timeouts from 400ms to 1m0s, any number of connections")

	examineZooKeeper(t, o, e.Addrs()[:1]).require(t, "quorum", diagnosis.Warn, "^the URL names 1 of 3 servers")
	o.TTL = time.Second
	examineZooKeeper(t, o, e.Addrs()).require(t, "sessions", diagnosis.Warn, "^a session lasts 400ms at least, more than a third of the TTL")
	o.TTL = 15 * time.Second

	e.Servers()[2].Kill()
	redistest.Await(t, 30*time.Second, "a majority of two", func() bool {
		modes := e.Servers()[0].Mode() + e.Servers()[1].Mode()
		return modes == "leaderfollower" || modes == "followerleader"
	})
	r = examineZooKeeper(t, o, e.Addrs())
	if f := r.require(t, "quorum", diagnosis.Warn, "the server does not answer"); f.Node != e.Servers()[2].Addr() {
		t.Errorf("it is %s that does not answer", f.Node)
	}
	r.require(t, "quorum", diagnosis.Warn, "^2 of 3 servers serve: no other may fail")
	r.requireWorst(t, diagnosis.None)

	e.Servers()[1].Kill()
	redistest.Await(t, 30*time.Second, "no leader", func() bool { return e.Servers()[0].Mode() == "" })
	r = examineZooKeeper(t, o, e.Addrs())
	r.require(t, "reach", diagnosis.Fail, "no answer")
	r.require(t, "quorum", diagnosis.Warn, "the server has no majority, and serves no clients")
	r.requireWorst(t, diagnosis.Unreachable)
}

func TestZooKeeperWithBadSettings(t *testing.T) {
	t.Parallel()
	s := zkservers.Start(t, "forceSync=no", "maxClientCnxns=10", "minSessionTimeout=6000")
	r := examineZooKeeper(t, subject(nil).Options, []string{s.Addr()})
	r.require(t, "durability", diagnosis.Warn, "does not write its log to disk before it answers")
	r.require(t, "sessions", diagnosis.Warn, "^maxClientCnxns 10")
	r.require(t, "sessions", diagnosis.Warn, "^a session lasts 6s at least")
	r.require(t, "quorum", diagnosis.OK, "^one server: while it is away")
	r.requireWorst(t, diagnosis.None)
}

func TestZooKeeperThatDisclosesLittle(t *testing.T) {
	t.Parallel()
	s := zkservers.Start(t, "4lw.commands.whitelist=srvr")
	r := examineZooKeeper(t, subject(nil).Options, []string{s.Addr()})
	r.require(t, "durability", diagnosis.Unknown, "does not disclose its counters")
	r.require(t, "sessions", diagnosis.Unknown, "does not disclose its limits")
	r.require(t, "quorum", diagnosis.OK, "one server")
	r.requireWorst(t, diagnosis.None)
	s = zkservers.Start(t, "4lw.commands.whitelist=*") // and another ensemble
	other := zkservers.Start(t)
	r = examineZooKeeper(t, subject(nil).Options, []string{s.Addr(), other.Addr()})
	r.require(t, "quorum", diagnosis.Fail, "are leaders of different ensembles: both grant")
	r.requireWorst(t, diagnosis.Misconfig)
}

func TestZooKeeperRights(t *testing.T) {
	t.Parallel()
	s := zkservers.Start(t)
	login := func(c *zk.Conn) { must(t, c.AddAuth("digest", []byte("ann:secret"))) }
	conn, _, err := zk.Connect([]string{s.Addr()}, 4*time.Second, zk.WithLogger(quiet{}))
	must(t, err)
	defer conn.Close()
	login(conn)
	_, err = conn.Create("/holdfast", nil, 0, zk.DigestACL(zk.PermAll, "ann", "secret"))
	must(t, err)
	r := examineZooKeeper(t, subject(nil).Options, []string{s.Addr()})
	r.require(t, "trial", diagnosis.Fail, "no rights on /holdfast")
	r.requireWorst(t, diagnosis.Denied)
	examineZooKeeper(t, subject(nil).Options, []string{s.Addr()}, login).requireSound(t, "trial", "clock")
}

func TestZooKeeperOutOfReach(t *testing.T) {
	t.Parallel()
	stalls := redistest.WatchStalls(t)
	begin := time.Now()
	r := examineZooKeeper(t, subject(nil).Options, []string{"127.0.0.1:1"})
	r.require(t, "reach", diagnosis.Fail, "no answer")
	r.require(t, "quorum", diagnosis.Warn, "the server does not answer: .*refused")
	r.requireWorst(t, diagnosis.Unreachable)
	stalls.Within(t, begin, 3*reachLimit, "a ZooKeeper that is away")
}

func TestZooKeeperServers(t *testing.T) {
	with := func(version string) *zkServer {
		return &zkServer{Place: "a:1", srvr: map[string]string{"Zookeeper version": version, "Outstanding": "900"}}
	}
	z := &zooKeeper{servers: []*zkServer{with("3.7.2-abc, built on 2023"), with("3.8.4, built on 2024")}}
	z.version()
	z.load()
	z.voters = make([]string, 4)
	z.servers[0].srvr["Mode"], z.servers[1].srvr["Mode"] = "leader", "read-only"
	z.quorum()
	r := report(z.findings)
	r.require(t, "version", diagnosis.Warn, "the servers differ: 3.7.2, 3.8.4")
	r.require(t, "load", diagnosis.Warn, "900 requests wait")
	r.require(t, "quorum", diagnosis.Warn, "^4 servers tolerate no more failures than 3")
	r.require(t, "quorum", diagnosis.Warn, "the server is read-only")
	z = &zooKeeper{servers: []*zkServer{with("3.4.14-4c25d480")}}
	z.version()
	report(z.findings).require(t, "version", diagnosis.Fail, "ZooKeeper 3.4.14 is too old")
}
