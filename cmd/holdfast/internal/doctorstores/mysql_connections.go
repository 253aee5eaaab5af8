package doctorstores

import (
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// shortIdle is the shortest wait_timeout with which pools lose no connections in normal use.
const shortIdle = time.Minute

// connections compares the limits with what is used.
func (m *mySQL) connections() {
	c := m.check("connections")
	used, most := number(m.status, "threads_connected"), number(m.variables, "max_connections")
	if idle := number(m.variables, "wait_timeout"); idle > 0 && time.Duration(idle)*time.Second < shortIdle {
		c.Warn("set wait_timeout = 300 or more, or a shorter SetConnMaxIdleTime", "wait_timeout %d: the server cuts connections that are idle for %d s, and calls then fail", idle, idle)
	}
	if used < 0 || most < 0 {
		c.Unknown(diagnosis.Again, "the server does not disclose its connections")
		return
	}
	c.With("used", used).With("limit", most).WarnIf(float64(used) >= nearlyFull*float64(most), "raise max_connections, or make the pools smaller", "%d of at most %d connections are in use", used, most)
	c.With("used", used).With("limit", most).Otherwise("%d of at most %d in use; an engine uses up to 6", used, most)
}
