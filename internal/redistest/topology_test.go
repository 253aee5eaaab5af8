package redistest

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestClusterServesEverySlot(t *testing.T) {
	var addrs []string
	t.Run("alive", func(t *testing.T) {
		c := StartCluster(t)
		addrs = c.Addrs()
		rdb := c.Client()
		used := map[*Server]bool{}
		for i := range 50 {
			key := fmt.Sprint("key", i)
			if err := rdb.Set(t.Context(), key, i, time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
			used[c.MasterOf(key)] = true
		}
		if len(used) != 3 || len(c.Masters()) != 3 {
			t.Errorf("the keys lie on %d of %d masters", len(used), len(c.Masters()))
		}
	})
	for _, addr := range addrs {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			t.Errorf("%s still listens after the test", addr)
		}
	}
}

func TestClusterFailsOver(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	rdb := c.Client()
	if err := rdb.Set(t.Context(), "a", 1, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	old := c.MasterOf("a")
	c.AwaitHealthy()
	old.Kill()
	next := c.FailOver(old)
	if next == old || c.MasterOf("a") != next {
		t.Errorf("%s was the master, then %s, and now %s is", old.Addr(), next.Addr(), c.MasterOf("a").Addr())
	}
	c.Rejoin(old)
	if back := c.FailOver(next); back != old { // in good order
		t.Errorf("%s came back as the master, want %s", back.Addr(), old.Addr())
	}
	c.AwaitHealthy()
}

func TestMigrationOfASlot(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	rdb := c.Client()
	key := func(i int) string { return fmt.Sprintf("{a}%d", i) }
	for i := range 10 {
		if err := rdb.Set(t.Context(), key(i), i, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
	}
	from := c.MasterOf("a")
	to := c.Masters()[0]
	if to == from {
		to = c.Masters()[1]
	}
	m := c.Migrate("a", to)
	m.MoveKeys(key(0))
	both := func() error { return rdb.MGet(t.Context(), key(0), key(1)).Err() }
	direct := from.Client()
	if err := direct.Get(t.Context(), key(0)).Err(); err == nil || !strings.HasPrefix(err.Error(), "ASK ") {
		t.Errorf("the old master answered %v, want ASK", err)
	}
	want := "TRYAGAIN"
	if !from.Since(7, 0) {
		want = "ASK " // the new master then answers TRYAGAIN
	}
	if err := direct.MGet(t.Context(), key(0), key(1)).Err(); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("the old master answered %v, want %s", err, want)
	}
	m.Finish()
	if err := both(); err != nil || c.MasterOf("a") != to {
		t.Errorf("after the migration: %v", err)
	}
}

func TestReplicasGetWhatTheMasterHas(t *testing.T) {
	r := StartReplicated(t, 2)
	set := func(value string) int64 {
		t.Helper()
		c := redis.NewClient(&redis.Options{Addr: r.Master().Addr(), PoolSize: 1})
		defer c.Close()
		if err := c.Set(t.Context(), "a", value, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		return c.Wait(t.Context(), 2, 300*time.Millisecond).Val()
	}
	if n := set("seen"); n != 2 {
		t.Errorf("%d replicas have it, want 2", n)
	}
	old := r.Master()
	old.HoldBackReplicas()
	if n := set("unseen"); n != 0 {
		t.Errorf("%d replicas have what was held back", n)
	}
	old.Kill()
	next := r.Promote()
	if got := next.Client().Get(t.Context(), "a").Val(); got != "seen" {
		t.Errorf("the new master has %q", got)
	}
	r.Rejoin(old)
	if n := set("again"); n != 2 {
		t.Errorf("%d replicas have it, want 2", n)
	}
	next.HoldBackReplicas()
	next.ReleaseReplicas()
	r.AwaitReplicas()
}

func TestSentinelsFailOver(t *testing.T) {
	s := StartSentinel(t)
	rdb := s.Client()
	if err := rdb.Set(t.Context(), "a", 1, time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
	first := s.Master()
	second := s.FailOver()
	if first == second {
		t.Error("the master stayed the same")
	}
	s.AwaitWatched()
	second.Kill()
	third := s.AwaitFailOver() // by itself
	if third == second {
		t.Error("the dead master stayed the same")
	}
	Await(t, topologyTimeout, "the client finds the new master", func() bool { return rdb.Set(t.Context(), "a", 2, time.Minute).Err() == nil })
	s.Rejoin(second)
	s.AwaitWatched()
}
