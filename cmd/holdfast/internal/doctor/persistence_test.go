package doctor

import (
	"os"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestPersistence(t *testing.T) {
	s := redistest.Start(t)
	c := s.Client()
	set := func(name, value string) {
		t.Helper()
		if err := c.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	require(t, examine(t, defaults(), s.URL()), "persistence", diagnosis.Warn, "^none: a restart forgets every lease")
	set("save", "3600 1")
	require(t, examine(t, defaults(), s.URL()), "persistence", diagnosis.Warn, "^snapshots only")
	set("appendonly", "yes")
	require(t, examine(t, defaults(), s.URL()), "persistence", diagnosis.OK, "fsync everysec: a power loss, .* forgets the leases of the last 1 to 2 s, so that after it two may hold")
	set("appendfsync", "no")
	require(t, examine(t, defaults(), s.URL()), "persistence", diagnosis.Warn, "fsync no: a power loss forgets")
	set("appendfsync", "always")
	require(t, examine(t, defaults(), s.URL()), "persistence", diagnosis.OK, "fsync always")
}

func TestSnapshotsFail(t *testing.T) {
	s := redistest.Start(t, redistest.WithArgs("--save", "3600 1"))
	c := s.Client()
	// A folder under the snapshot's name: even root cannot rename a file over it.
	if err := os.MkdirAll(s.Dir()+"/dump.rdb/x", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.BgSave(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for parseFields(c.Info(t.Context(), "persistence").Val())["rdb_last_bgsave_status"] != "err" {
		<-tick.C
	}
	r := examine(t, defaults(), s.URL())
	require(t, r, "persistence", diagnosis.Fail, "every write is refused until one succeeds")
	require(t, r, "reach", diagnosis.Fail, "it refuses every write: MISCONF")
	requireWorst(t, r, diagnosis.Misconfig)
}

// The remedy is that of a node of a quorum, and of one that fails over, or of both.
func TestRemedyOfPersistence(t *testing.T) {
	for want, of := range map[string]*site{
		"set appendonly yes (appendfsync everysec), or accept it and fence what the locks protect":      {node: &store.RedisNode{Kind: store.Single}},
		"set appendonly yes and appendfsync always":                                                     {node: &store.RedisNode{Kind: store.Single}, voter: true},
		"set appendonly yes, and do not let a master restart by itself before a replica has taken over": {node: &store.RedisNode{Kind: store.Sentinel}},
		"set appendonly yes and appendfsync always, and do not let a master restart by itself before a replica has taken over": {
			node: &store.RedisNode{Kind: store.Cluster}, voter: true},
	} {
		s := &server{info: fields{"aof_enabled": "0"}, conf: map[string]string{"save": ""}}
		r := &diagnosis.Report{}
		s.checkPersistence(r, of)
		if f := require(t, r, "persistence", diagnosis.Warn, "^none"); f.Remedy != want {
			t.Errorf("remedy %q, want %q", f.Remedy, want)
		}
	}
}
