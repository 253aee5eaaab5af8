//go:build unix

package zkservers

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestServer(t *testing.T) {
	s := Start(t)
	if mode := s.Mode(); mode != "standalone" {
		t.Fatalf("mode %q", mode)
	}
	s.Pause()
	if mode := s.Mode(); mode != "" {
		t.Errorf("a paused server said that it is %s", mode)
	}
	s.Resume()
	redistest.Await(t, 10*time.Second, "serving after the pause", func() bool { return s.Mode() == "standalone" })
	s.Kill()
	if mode := s.Mode(); mode != "" {
		t.Errorf("a killed server said that it is %s", mode)
	}
	s.Restart()
	if mode := s.Mode(); mode != "standalone" {
		t.Errorf("after the restart: mode %q", mode)
	}
}

func TestEnsemble(t *testing.T) {
	e := StartEnsemble(t, 3)
	old := e.Leader(t)
	old.Kill()
	redistest.Await(t, 20*time.Second, "another leader", func() bool {
		for _, s := range e.Servers() {
			if s.Mode() == "leader" {
				return true
			}
		}
		return false
	})
	old.Restart()
	if mode := old.Mode(); mode != "follower" {
		t.Errorf("the former leader is %q", mode)
	}
}
