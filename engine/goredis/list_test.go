package goredis_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// List reads the clients behind a page of resources in one round trip, also if each lease
// is of another client.
func TestListOfManyClients(t *testing.T) {
	rdb := redistest.Start(t).Client()
	writer := open(t, rdb)
	const leases = 300
	for i := range leases {
		r := request(fmt.Sprintf("c%d.a", i))
		r.Resource = named(strconv.Itoa(i))
		r.Client = &engine.Client{ID: fmt.Sprintf("c%d", i), Name: fmt.Sprintf("client %d", i)}
		hold(t, writer, r)
	}
	reader := open(t, rdb)
	_, err := reader.Snapshot(t.Context(), named("0")) // the script is known from now on
	must(t, err)
	before, found := reads(t, rdb), 0
	for s, err := range reader.List(t.Context(), prefix, "*") {
		must(t, err)
		if want := "client " + s.Resource.Name; len(s.Holders) != 1 || s.Holders[0].Client.Name != want {
			t.Errorf("%s: %+v, want one holder, %s", s.Resource.Name, s.Holders, want)
		}
		found++
	}
	trips := reads(t, rdb) - before
	keys, err := rdb.DBSize(t.Context()).Result()
	must(t, err)
	// Each page of 100 keys is a SCAN, the snapshots, and the clients. Two more are of a second connection and of reads.
	if most := 3*(int(keys)/100+1) + 2; found != leases || trips > most {
		t.Errorf("%d resources in %d round trips, want %d in at most %d", found, trips, leases, most)
	}
}

// reads is how often the server has read from a connection.
func reads(t *testing.T, rdb *redis.Client) int {
	t.Helper()
	info, err := rdb.InfoMap(t.Context(), "stats").Result()
	must(t, err)
	n, err := strconv.Atoi(info["Stats"]["total_reads_processed"])
	must(t, err)
	return n
}
