//go:build unix

package sqlservers

import (
	"os"
	"testing"
	"time"
)

func TestServers(t *testing.T) {
	t.Run("PostgreSQL", func(t *testing.T) { testServer(t, StartPostgreSQL) })
	t.Run("MariaDB", func(t *testing.T) { testServer(t, StartMySQL) })
}

func testServer(t *testing.T, start func(testing.TB, ...Option) *Server) {
	var dir string
	t.Run("Life", func(t *testing.T) {
		s := start(t, WithSetting("max_connections", "20"))
		dir = s.Dir()
		requireResponds(t, s, true)
		s.Pause()
		requireResponds(t, s, false)
		s.Resume()
		requireResponds(t, s, true)
		for _, end := range []func(){s.Kill, s.Terminate} {
			end()
			requireResponds(t, s, false)
			s.Restart()
			requireResponds(t, s, true)
		}
		s.Pause()
		s.Kill()
		requireResponds(t, s, false)
		s.Restart()
		requireResponds(t, s, true)
	})
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder after the test: %v", err)
	}
}

func requireResponds(t *testing.T, s *Server, want bool) {
	t.Helper()
	within := 300 * time.Millisecond
	if want {
		within = startTimeout
	}
	if got := s.Responds(within); got != want {
		t.Fatalf("the server responds: %v, want %v", got, want)
	}
}

func TestWrongSettingIsAnError(t *testing.T) {
	for _, launch := range []func(...Option) (*Server, error){LaunchPostgreSQL, LaunchMySQL} {
		if s, err := launch(WithSetting("no_such_setting", "1")); err == nil {
			s.Stop()
			t.Error("a server with a wrong setting has started")
		}
	}
}
