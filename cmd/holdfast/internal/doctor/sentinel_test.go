package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// tell sends a command to a Sentinel.
func tell(t *testing.T, s *redistest.Server, args ...any) {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer c.Close()
	if err := c.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, durable())
	r := examine(t, defaults(), s.URL())
	require(t, r, "sentinel", diagnosis.OK, "3 of 3 Sentinels name "+s.Master().Addr()+" as master")
	require(t, r, "failover", diagnosis.OK, "3 Sentinels, quorum 2, 2 replicas, down-after 1000 ms")
	require(t, r, "replication", diagnosis.OK, "2 replicas, at most")
	require(t, r, "replication", diagnosis.OK, "replica of 127.0.0.1:"+port(s.Master()))
	require(t, r, "min-replicas", diagnosis.Warn, "min-replicas-to-write 0")
	require(t, r, "ttl", diagnosis.OK, "a TTL of 15s survives a failover of about 3s")
	requireWorst(t, r, diagnosis.None)

	o := defaults()
	o.TTL = 4 * time.Second
	require(t, examine(t, o, s.URL()), "ttl", diagnosis.Warn, "a failover takes about 3s: with a TTL of 4s the leases")

	// One address finds all; but that it is the only one is not well.
	r = examine(t, defaults(), "redis+sentinel://"+s.Addrs()[0]+"/main")
	require(t, r, "sentinel", diagnosis.OK, "3 of 3 Sentinels")
	require(t, r, "failover", diagnosis.Warn, "the URL names 1 of 3 Sentinels")

	r = examine(t, defaults(), strings.Replace(s.URL(), "/main", "/mian", 1))
	require(t, r, "sentinel", diagnosis.Fail, `it does not know the master "mian", but main`)
	requireWorst(t, r, diagnosis.Misconfig)

	tell(t, s.Watchers()[0], "sentinel", "set", "main", "quorum", "1")
	require(t, examine(t, defaults(), s.URL()), "failover", diagnosis.Warn, "quorum 1 of 3")
	tell(t, s.Watchers()[0], "sentinel", "set", "main", "quorum", "3")
	require(t, examine(t, defaults(), s.URL()), "failover", diagnosis.Warn, "quorum 3 of 3")
	tell(t, s.Watchers()[0], "sentinel", "set", "main", "quorum", "2")

	r = examine(t, defaults(), s.Watchers()[0].URL())
	require(t, r, "mode", diagnosis.Fail, "this is a Sentinel")
	requireWorst(t, r, diagnosis.Misconfig)
}

func TestSentinelsAway(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, durable())
	s.Watchers()[2].Kill()
	r := examine(t, defaults(), s.URL())
	require(t, r, "sentinel", diagnosis.Warn, "no answer: .*refused")
	require(t, r, "sentinel", diagnosis.OK, "2 of 3 Sentinels name")
	requireWorst(t, r, diagnosis.None)

	// Without most of them nothing fails over. They are missed after a while.
	s.Watchers()[1].Kill()
	last := s.Watchers()[0]
	c := redis.NewClient(&redis.Options{Addr: last.Addr()})
	defer c.Close()
	awaitInfo(t, last, func(fields) bool { return c.Do(t.Context(), "sentinel", "ckquorum", "main").Err() != nil })
	r = examine(t, defaults(), s.URL())
	require(t, r, "failover", diagnosis.Fail, "no failover is possible now: NOQUORUM")
	requireWorst(t, r, diagnosis.Misconfig)

	last.Kill()
	r = examine(t, defaults(), s.URL())
	require(t, r, "sentinel", diagnosis.Fail, "no Sentinel answers")
	requireWorst(t, r, diagnosis.Unreachable)
}

func TestReplicaCutOff(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, durable())
	s.Master().HoldBackReplicas()
	cut := s.Replicas()[0]
	awaitInfo(t, cut, func(f fields) bool { return f["master_link_status"] == "down" })
	r := examine(t, defaults(), s.URL())
	require(t, r, "replication", diagnosis.Warn, "the link to its master .* is down: if it were promoted now")
	require(t, r, "replication", diagnosis.Warn, "no replica is connected")
	requireWorst(t, r, diagnosis.None)
}

func TestSentinelsDisagree(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t, durable())
	odd := s.Watchers()[2]
	other := start(t)
	tell(t, odd, "sentinel", "remove", "main")
	r := examine(t, defaults(), s.URL())
	require(t, r, "sentinel", diagnosis.Fail, `it does not know the master "main", but none`)
	tell(t, odd, "sentinel", "monitor", "main", "127.0.0.1", port(other), "1")
	r = examine(t, defaults(), s.URL())
	require(t, r, "sentinel", diagnosis.Fail, "the Sentinels name different masters: ")
	requireWorst(t, r, diagnosis.Misconfig)
}

func TestTwoMasters(t *testing.T) {
	s := redistest.StartSentinel(t, durable())
	// The Sentinels will make it a replica again after some seconds.
	tell(t, s.Replicas()[0], "replicaof", "no", "one")
	r := examine(t, defaults(), s.URL())
	require(t, r, "sentinel", diagnosis.Fail, "several servers are masters: ")
	requireWorst(t, r, diagnosis.Misconfig)
}
