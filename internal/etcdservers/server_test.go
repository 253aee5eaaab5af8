//go:build unix

package etcdservers

import (
	"net/http"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// serves reports whether a member says that it is healthy, which takes a read of a majority.
func serves(s *Server) bool {
	client := http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://" + s.Addr() + "/health")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func TestServer(t *testing.T) {
	s := Start(t, Config{})
	if !serves(s) || !s.Leads() {
		t.Fatal("it does not serve")
	}
	s.Pause()
	if serves(s) {
		t.Error("a paused server serves")
	}
	s.Resume()
	redistest.Await(t, 10*time.Second, "serving after the pause", func() bool { return serves(s) })
	s.Kill()
	if serves(s) {
		t.Error("a killed server serves")
	}
	s.Restart()
	redistest.Await(t, 10*time.Second, "serving after the restart", func() bool { return serves(s) })
}

func TestCluster(t *testing.T) {
	c := StartCluster(t, 3, Config{})
	old := c.Leader(t)
	old.Kill()
	if next := c.Leader(t); next == old || !serves(next) {
		t.Error("no other leader after the first was killed")
	}
	old.Restart()
}
