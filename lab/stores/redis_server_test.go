package stores_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lab/stores"
)

// What a Redis wrote before a copy is there after its restoration, and what it wrote since is not, also if it has rewritten its files
// in between. An emptied one has nothing. Redis 6 has other files than 7: HOLDFAST_REDIS_SERVER.
func TestRedisIsRolledBack(t *testing.T) {
	s, err := stores.Redis().Launch()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	opts, err := redis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(opts)
	t.Cleanup(func() { _ = c.Close() })
	set := func(key string) {
		t.Helper()
		if err := c.Set(t.Context(), key, 1, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
	}
	copier := s.(stores.Copier)
	if err := copier.Restore(); err == nil {
		t.Error("a store without a copy was restored")
	}
	s.Restart()
	for _, rewritten := range []bool{false, true} {
		if err := c.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		set("old")
		if err := copier.Copy(); err != nil { // the later one counts
			t.Fatal(err)
		}
		set("before")
		if err := copier.Copy(); err != nil {
			t.Fatal(err)
		}
		set("after")
		if rewritten {
			if err := c.BgRewriteAOF(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(20 * time.Second); !strings.Contains(c.Info(t.Context(), "persistence").Val(), "aof_rewrite_in_progress:0"); {
				if time.Now().After(deadline) {
					t.Fatal("the rewrite does not end")
				}
			}
			set("after the rewrite")
		}
		if err := copier.Restore(); err != nil {
			t.Fatal(err)
		}
		s.Restart()
		keys, err := c.Keys(t.Context(), "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		if len(keys) != 2 || strings.Contains(strings.Join(keys, " "), "after") {
			t.Errorf("rewritten %v: after the restoration there are %q, want old and before", rewritten, keys)
		}
	}
	if err := s.(stores.Emptier).Empty(); err != nil {
		t.Fatal(err)
	}
	s.Restart()
	if n, err := c.DBSize(t.Context()).Result(); n != 0 || err != nil {
		t.Errorf("after it was emptied there are %d keys, %v", n, err)
	}
}
