package doctorstores

import "time"

// shortIdle is the shortest wait_timeout with which pools lose no connections in normal use.
const shortIdle = time.Minute

// connections compares the limits with what is used.
func (m *mySQL) connections() {
	const check = "connections"
	used, most := number(m.status, "threads_connected"), number(m.variables, "max_connections")
	was := len(m.findings)
	if idle := number(m.variables, "wait_timeout"); idle > 0 && time.Duration(idle)*time.Second < shortIdle {
		m.add(m.Warn(check, "set wait_timeout = 300 or more, or a shorter SetConnMaxIdleTime", "wait_timeout %d: the server cuts connections that are idle for %d s, and calls then fail", idle, idle))
	}
	if used < 0 || most < 0 {
		m.add(m.Unknown(check, again, "the server does not disclose its connections"))
		return
	}
	if float64(used) >= nearlyFull*float64(most) {
		m.add(m.Warn(check, "raise max_connections, or make the pools smaller", "%d of at most %d connections are in use", used, most).With("used", used).With("limit", most))
	}
	if len(m.findings) == was {
		m.add(m.OK(check, "%d of at most %d in use; an engine uses up to 6", used, most).With("used", used).With("limit", most))
	}
}
