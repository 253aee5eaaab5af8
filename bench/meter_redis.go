package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisMeter reads them over its own connection.
type redisMeter struct{ rdb *redis.Client }

func newRedisMeter(addr string) *redisMeter {
	return &redisMeter{redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1, DisableIdentity: true})}
}

func (m *redisMeter) read(ctx context.Context) (serverUse, error) {
	info, err := m.rdb.Info(ctx, "cpu", "stats", "commandstats").Result()
	if err != nil {
		return serverUse{}, err
	}
	u := serverUse{calls: map[string]int{}}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch {
		case name == "used_cpu_user" || name == "used_cpu_sys":
			s, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return u, fmt.Errorf("INFO cpu: %q: %w", line, err)
			}
			u.cpu += time.Duration(s * float64(time.Second))
		case name == "total_reads_processed":
			u.reads, err = strconv.Atoi(value)
			if err != nil {
				return u, fmt.Errorf("INFO stats: %q: %w", line, err)
			}
		case strings.HasPrefix(name, "cmdstat_"):
			var n int
			if _, err := fmt.Sscanf(value, "calls=%d,", &n); err == nil {
				u.calls[strings.TrimPrefix(name, "cmdstat_")] = n
			}
		}
	}
	return u, nil
}

// empty deletes all keys, because the remaining keys of one contender slow down the
// others: with more keys, Redis detects and reports an expired one later.
func (m *redisMeter) empty(ctx context.Context) error { return m.rdb.FlushAll(ctx).Err() }

func (m *redisMeter) close() { _ = m.rdb.Close() }
