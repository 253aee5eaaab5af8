package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// serverUse is the counters of a server since its start.
type serverUse struct {
	cpu   time.Duration
	reads int // reads from a socket: a pipeline is one
	calls map[string]int
}

// meter reads the counters of a server over its own connection.
type meter struct{ rdb *redis.Client }

func newMeter(addr string) *meter {
	return &meter{redis.NewClient(&redis.Options{Addr: addr, PoolSize: 1, DisableIdentity: true})}
}

func (m *meter) read(ctx context.Context) (serverUse, error) {
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

// sent returns the number of calls of the given commands.
func (u serverUse) sent(commands []string) int {
	n := 0
	for _, c := range commands {
		n += u.calls[c]
	}
	return n
}
