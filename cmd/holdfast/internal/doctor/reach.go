package doctor

import (
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// checkReach checks whether the server answers, and how quickly.
func (s *server) checkReach() []diagnosis.Finding {
	const check = "reach"
	switch {
	case s.trouble != nil && refusedBy(s.trouble):
		return []diagnosis.Finding{s.Fail(check, "give user and password in the URL, and let the user run PING", "refused: %s", diagnosis.OneLine(s.trouble)).As(diagnosis.Denied)}
	case s.trouble != nil && s.role == replica:
		return []diagnosis.Finding{s.Warn(check, "start it, or allow connections to it: it is needed when its master fails", "the replica does not answer: %s", diagnosis.OneLine(s.trouble))}
	case s.trouble != nil:
		return []diagnosis.Finding{s.Fail(check, "check that it runs, the address in the URL, and the network in between", "no answer: %s", diagnosis.OneLine(s.trouble)).As(diagnosis.Unreachable)}
	}
	f := s.unreadiness()
	if f.Check != "" {
		return []diagnosis.Finding{f}
	}
	f = s.OK(check, "%s; %d pings: median %s, max %s", s.role, len(s.rtts), diagnosis.Span(s.rtts.Median()), diagnosis.Span(s.rtts.Longest()))
	return []diagnosis.Finding{f.With("rtt_median_ms", diagnosis.Millis(s.rtts.Median())).With("rtt_max_ms", diagnosis.Millis(s.rtts.Longest())).With("role", string(s.role))}
}

// unreadiness returns the finding for a server that answers PING with an error, if it does.
func (s *server) unreadiness() diagnosis.Finding {
	switch {
	case s.unready == nil:
		return diagnosis.Finding{}
	case strings.HasPrefix(s.unready.Error(), "MISCONF"):
		return s.Fail("reach", "see the finding about persistence", "it refuses every write: %s", diagnosis.OneLine(s.unready))
	}
	if strings.HasPrefix(s.unready.Error(), "BUSY") {
		return s.Fail("reach", "end the script with SCRIPT KILL or FUNCTION KILL, and find out which program runs it", "it is busy with a script and answers no other command: %s", diagnosis.OneLine(s.unready)).As(diagnosis.Unreachable)
	}
	return s.Fail("reach", "wait until it is ready, and check its log", "it answers but is not ready: %s", diagnosis.OneLine(s.unready)).As(diagnosis.Unreachable)
}

// checkAnswers reports which sources of the other checks the server refuses.
func (s *server) checkAnswers() []diagnosis.Finding {
	var out []diagnosis.Finding
	if s.infoErr != nil {
		out = append(out, s.Unknown("info", "let the user run INFO, which reads only: +info", "INFO is refused: %s", diagnosis.OneLine(s.infoErr)))
	}
	if s.confErr != nil && len(s.conf) == 0 {
		out = append(out, s.Unknown("config", "look for appendfsync, save, min-replicas-to-write and timeout in the service's console, or let the user run CONFIG GET: +config|get",
			"CONFIG GET is refused: %s", diagnosis.OneLine(s.confErr)))
	}
	return out
}

// checkMode checks that the URL's scheme fits the server.
func (s *server) checkMode(of *site) []diagnosis.Finding {
	const check = "mode"
	single := of.node.Kind == singleURL
	switch {
	case s.info["redis_mode"] == "sentinel":
		return []diagnosis.Finding{s.Fail(check, "write redis+sentinel://HOST:PORT,HOST:PORT/MASTER", "this is a Sentinel, which stores no leases")}
	case single && s.info["cluster_enabled"] == "1":
		return []diagnosis.Finding{s.Fail(check, "write redis+cluster://HOST:PORT,HOST:PORT", "this is one server of a cluster: resources of other slots are refused")}
	case single && s.info["role"] == "slave":
		return []diagnosis.Finding{s.Fail(check, "give the URL of the master, or of the Sentinels", "this is a replica of %s:%s: it refuses to write", s.info["master_host"], s.info["master_port"])}
	case s.info["role"] == "active-replica":
		return []diagnosis.Finding{s.Fail(check, "set active-replica no", "active replicas both grant, so a resource can have two holders")}
	}
	return nil
}
