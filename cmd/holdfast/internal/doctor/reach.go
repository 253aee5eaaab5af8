package doctor

import (
	"slices"
	"strings"
	"time"
)

// checkReach checks whether the server answers, and how quickly.
func (s *server) checkReach() []Finding {
	const check = "reach"
	switch {
	case s.trouble != nil && refusedBy(s.trouble):
		return []Finding{s.fail(check, "give user and password in the URL, and let the user run PING", "refused: %s", short(s.trouble)).as(Denied)}
	case s.trouble != nil && s.role == replica:
		return []Finding{s.warn(check, "start it, or allow connections to it: it is needed when its master fails", "the replica does not answer: %s", short(s.trouble))}
	case s.trouble != nil:
		return []Finding{s.fail(check, "check that it runs, the address in the URL, and the network in between", "no answer: %s", short(s.trouble)).as(Unreachable)}
	}
	f := s.unreadiness()
	if f.Check != "" {
		return []Finding{f}
	}
	f = s.ok(check, "%s; %d pings: median %s, max %s", s.role, len(s.rtts), span(s.median()), span(s.longest()))
	return []Finding{f.with("rtt_median_ms", millis(s.median())).with("rtt_max_ms", millis(s.longest())).with("role", string(s.role))}
}

// unreadiness returns the finding for a server that answers PING with an error, if it does.
func (s *server) unreadiness() Finding {
	switch {
	case s.unready == nil:
		return Finding{}
	case strings.HasPrefix(s.unready.Error(), "MISCONF"):
		return s.fail("reach", "see the finding about persistence", "it refuses every write: %s", short(s.unready))
	}
	if strings.HasPrefix(s.unready.Error(), "BUSY") {
		return s.fail("reach", "end the script with SCRIPT KILL or FUNCTION KILL, and find out which program runs it", "it is busy with a script and answers no other command: %s", short(s.unready)).as(Unreachable)
	}
	return s.fail("reach", "wait until it is ready, and check its log", "it answers but is not ready: %s", short(s.unready)).as(Unreachable)
}

func (s *server) median() time.Duration {
	sorted := slices.Sorted(slices.Values(s.rtts))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}

func (s *server) longest() time.Duration {
	if len(s.rtts) == 0 {
		return 0
	}
	return slices.Max(s.rtts)
}

// checkAnswers reports which sources of the other checks the server refuses.
func (s *server) checkAnswers() []Finding {
	var out []Finding
	if s.infoErr != nil {
		out = append(out, s.unknown("info", "let the user run INFO, which reads only: +info", "INFO is refused: %s", short(s.infoErr)))
	}
	if s.confErr != nil && len(s.conf) == 0 {
		out = append(out, s.unknown("config", "look for appendfsync, save, min-replicas-to-write and timeout in the service's console, or let the user run CONFIG GET: +config|get",
			"CONFIG GET is refused: %s", short(s.confErr)))
	}
	return out
}

// checkMode checks that the URL's scheme fits the server.
func (s *server) checkMode(of *site) []Finding {
	const check = "mode"
	single := of.node.Kind == singleURL
	switch {
	case s.info["redis_mode"] == "sentinel":
		return []Finding{s.fail(check, "write redis+sentinel://HOST:PORT,HOST:PORT/MASTER", "this is a Sentinel, which stores no leases")}
	case single && s.info["cluster_enabled"] == "1":
		return []Finding{s.fail(check, "write redis+cluster://HOST:PORT,HOST:PORT", "this is one server of a cluster: resources of other slots are refused")}
	case single && s.info["role"] == "slave":
		return []Finding{s.fail(check, "give the URL of the master, or of the Sentinels", "this is a replica of %s:%s: it refuses to write", s.info["master_host"], s.info["master_port"])}
	case s.info["role"] == "active-replica":
		return []Finding{s.fail(check, "set active-replica no", "active replicas both grant, so a resource can have two holders")}
	}
	return nil
}
