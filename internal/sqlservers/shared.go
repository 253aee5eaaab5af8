//go:build unix

package sqlservers

import (
	"sync"
	"testing"
)

// Shared is a server that all tests of a binary use. The first test that calls Get starts
// it, and TestMain calls Stop. Tests that pause or kill a server start their own.
type Shared struct {
	launch func(...Option) (*Server, error)
	opts   []Option

	once   sync.Once
	server *Server
	err    error
}

// Share returns a server that launch starts, LaunchPostgreSQL or LaunchMySQL.
func Share(launch func(...Option) (*Server, error), opts ...Option) *Shared {
	return &Shared{launch: launch, opts: opts}
}

// Get returns the server. It fails the test if the server could not be started.
func (s *Shared) Get(t testing.TB) *Server {
	t.Helper()
	s.once.Do(func() { s.server, s.err = s.launch(s.opts...) })
	if s.err != nil {
		t.Fatalf("sqlservers: %v", s.err)
	}
	return s.server
}

// Stop ends the server if it was started.
func (s *Shared) Stop() {
	s.once.Do(func() {})
	if s.server != nil {
		s.server.Stop()
	}
}
