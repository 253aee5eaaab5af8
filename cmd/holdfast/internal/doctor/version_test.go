package doctor

import (
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

// The servers here are what their INFO says: only one version is installed.
func TestVersions(t *testing.T) {
	for _, c := range []struct {
		info   string
		kind   store.NodeKind
		status diagnosis.FindingStatus
		found  string
	}{
		{"redis_version:7.0.15", singleURL, diagnosis.OK, "Redis 7.0.15"},
		{"redis_version:6.2.0", singleURL, diagnosis.OK, "Redis 6.2.0"},
		{"redis_version:6.2.14", clusterURL, diagnosis.Warn, "every wake-up to all servers"},
		{"redis_version:6.0.16", singleURL, diagnosis.Fail, "too old"},
		{"redis_version:5.0.7", singleURL, diagnosis.Fail, "too old"},
		{"redis_version:10.0.1", clusterURL, diagnosis.OK, "Redis 10.0.1"},
		{"redis_version:7.2.4\nserver_name:valkey\nvalkey_version:8.0.1", clusterURL, diagnosis.OK, "Valkey 8.0.1"},
		{"redis_version:6.3.4\nmvcc_depth:0", singleURL, diagnosis.Warn, "KeyDB 6.3.4 is not among"},
		{"redis_version:7.4.0\ndragonfly_version:df-v1.40.1", singleURL, diagnosis.Warn, "Dragonfly 1.40.1 is not among"},
		{"connected_clients:1", singleURL, diagnosis.Warn, "reports no version"},
	} {
		s := &server{Place: "a:1", info: parseFields(c.info)}
		r := &diagnosis.Report{}
		s.checkVersion(r, &site{node: &store.RedisNode{Kind: c.kind}})
		require(t, r, "version", c.status, c.found)
	}
}

func TestActiveReplicas(t *testing.T) {
	s := &server{Place: "a:1", info: parseFields("redis_version:6.3.4\nmvcc_depth:0\nrole:active-replica")}
	r := &diagnosis.Report{}
	s.checkMode(r, &site{node: &store.RedisNode{Kind: singleURL}})
	require(t, r, "mode", diagnosis.Fail, "active replicas both grant")
}
