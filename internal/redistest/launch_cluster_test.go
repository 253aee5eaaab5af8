package redistest

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestLaunchedClusterServesEverySlot(t *testing.T) {
	for _, masters := range []int{1, 2, 3} {
		all, err := LaunchCluster(masters)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			t.Cleanup(s.Stop)
		}
		rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{all[0].Addr()}})
		t.Cleanup(func() { _ = rdb.Close() })
		for i := range 50 {
			if err := rdb.Set(t.Context(), fmt.Sprint("key", i), i, time.Minute).Err(); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range all {
			if n, err := s.Client().DBSize(t.Context()).Result(); err != nil || n == 0 {
				t.Errorf("a master of %d has %d keys, %v", masters, n, err)
			}
		}
	}
}
