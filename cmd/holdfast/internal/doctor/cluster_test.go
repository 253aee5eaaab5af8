package doctor

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func durable() redistest.Option {
	return redistest.WithArgs("--appendonly", "yes", "--appendfsync", "always")
}

func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, durable())
	r := examine(t, defaults(), c.URL())
	f := require(t, r, "cluster", diagnosis.OK, "all slots served by 6 servers")
	if f.Values["slots_ok"] != int64(slotsAll) {
		t.Errorf("values %v", f.Values)
	}
	require(t, r, "failover", diagnosis.OK, "3 masters, each with a replica")
	require(t, r, "min-replicas", diagnosis.Warn, "min-replicas-to-write 0: a master that is cut off continues to grant")
	require(t, r, "ttl", diagnosis.Warn, "a failover takes about 12s: with a TTL of 15s")
	count := map[string]int{}
	for _, f := range r.Findings {
		if f.Status == diagnosis.OK {
			count[f.Check]++
		}
	}
	for _, check := range []string{"reach", "version", "eviction", "persistence", "replication", "rights", "pauses", "connections"} {
		if count[check] != 6 {
			t.Errorf("%s is OK on %d of 6 servers in\n%s", check, count[check], lines(r))
		}
	}
	requireWorst(t, r, diagnosis.None)

	// Its shards are no quorum.
	m := c.Masters()
	r = examine(t, defaults(), m[0].URL(), m[1].URL(), m[2].URL())
	require(t, r, "independence", diagnosis.Fail, "belong to the same cluster")
	require(t, r, "mode", diagnosis.Fail, "one server of a cluster")
	requireWorst(t, r, diagnosis.Misconfig)

	// Any living server of the URL is enough, and knows what has become of the others.
	lost := c.Masters()[0]
	c.ReplicaOf(lost).Kill()
	r = examine(t, defaults(), "redis+cluster://127.0.0.1:1,"+c.Masters()[1].Addr())
	require(t, r, "reach", diagnosis.Warn, "the replica does not answer")
	requireWorst(t, r, diagnosis.None)

	lost.Kill()
	r = examine(t, defaults(), c.URL())
	require(t, r, "reach", diagnosis.Fail, "no answer")
	requireWorst(t, r, diagnosis.Unreachable)
}

func TestClusterWithHoles(t *testing.T) {
	t.Parallel()
	s := start(t, "--cluster-enabled", "yes")
	c := s.Client()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(c.ClusterAddSlotsRange(t.Context(), 0, 16000).Err())
	r := examine(t, defaults(), "redis+cluster://"+s.Addr())
	require(t, r, "cluster", diagnosis.Fail, "cluster_state fail, 16001 of 16384 slots served")
	requireWorst(t, r, diagnosis.Misconfig)

	must(c.ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
	awaitCluster(t, s, "cluster_state:ok")
	r = examine(t, defaults(), "redis+cluster://"+s.Addr())
	require(t, r, "cluster", diagnosis.Fail, "16001 of 16384 slots are served")

	must(c.ClusterAddSlotsRange(t.Context(), 16001, 16383).Err())
	must(c.ConfigSet(t.Context(), "cluster-require-full-coverage", "yes").Err())
	awaitCluster(t, s, "cluster_state:ok")
	r = examine(t, defaults(), "redis+cluster://"+s.Addr())
	require(t, r, "cluster", diagnosis.OK, "all slots served by 1 servers")
	require(t, r, "failover", diagnosis.Warn, "masters without a replica: "+s.Addr())
	require(t, r, "failover", diagnosis.Warn, "1 masters: without one of them")
	require(t, r, "replication", diagnosis.Warn, "none can take over")
	requireWorst(t, r, diagnosis.None)
}

func awaitCluster(t *testing.T, s *redistest.Server, want string) {
	t.Helper()
	c := s.Client()
	awaitInfo(t, s, func(fields) bool { return strings.Contains(c.ClusterInfo(t.Context()).Val(), want) })
}

func TestClusterRefuses(t *testing.T) {
	s := start(t, "--cluster-enabled", "yes", "--requirepass", "s3cret")
	r := examine(t, defaults(), "redis+cluster://:wr0ng@"+s.Addr())
	require(t, r, "cluster", diagnosis.Fail, "refused: WRONGPASS")
	requireWorst(t, r, diagnosis.Denied)
	r = examine(t, defaults(), "redis+cluster://127.0.0.1:1")
	require(t, r, "cluster", diagnosis.Fail, "no server of the URL answers")
	requireWorst(t, r, diagnosis.Unreachable)
}

// Only one version is installed, so what the servers said is planted.
func TestVersionsDiffer(t *testing.T) {
	st := &site{Place: "c:1", node: &store.RedisNode{Kind: clusterURL}}
	for _, v := range []string{"7.0.15", "7.2.4", "7.0.15"} {
		st.servers = append(st.servers, &server{Place: "a:1", info: fields{"redis_version": v}})
	}
	r := &diagnosis.Report{}
	st.checkMembers(r)
	require(t, r, "version", diagnosis.Warn, "the servers differ: Redis 7.0.15, Redis 7.2.4")
}

func TestParseNodes(t *testing.T) {
	const text = `aa 10.0.0.1:7000@17000,one.example myself,master - 0 0 1 connected 0-5460 [5461->-bb] 9000
bb :7001@17001 master,fail - 0 0 2 disconnected
cc 10.0.0.3:7002@17002 slave aa 0 0 1 connected
dd :0@0 master,noaddr - 0 0 3 disconnected
`
	n := parseNodes(text, "h:1")
	if len(n) != 4 || n[0].addr != "10.0.0.1:7000" || n[0].slots != 2 || n[0].role() != master ||
		n[1].addr != "h:7001" || n[1].role() != "" || !n[1].is("fail") || n[2].masterID != "aa" || n[2].role() != replica || n[3].addr != "" {
		t.Errorf("nodes %+v", n)
	}
}
