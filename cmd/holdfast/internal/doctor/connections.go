package doctor

import (
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// idleShort is the shortest timeout with which pools lose no connections in normal use.
const idleShort = time.Minute

// checkConnections checks the settings that close or refuse connections.
func (s *server) checkConnections(r *diagnosis.Report) {
	c := s.Check("connections", &r.Findings)
	if seconds, ok := s.conf.number("timeout"); ok && seconds > 0 && time.Duration(seconds)*time.Second < idleShort {
		c.Warn("set timeout 0, or 300 or more", "timeout %d: the server cuts connections that are idle for %d s, and calls then fail", seconds, seconds)
	}
	if keep, ok := s.conf.number("tcp-keepalive"); ok && keep == 0 {
		c.Warn("set tcp-keepalive 60", "tcp-keepalive 0: connections of dead machines are never freed")
	}
	used, ok := s.info.number("connected_clients")
	most, okMost := s.limit("maxclients")
	switch {
	case ok && okMost && float64(used) >= nearlyFull*float64(most):
		c.Warn("raise maxclients, or make the pools smaller", "%d of at most %d connections are in use", used, most)
	case ok && okMost:
		c.Otherwise("%d of at most %d in use", used, most)
	case ok:
		c.Otherwise("%d in use", used)
	}
}
