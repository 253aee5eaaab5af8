package doctor

import (
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// checkReach checks whether the server answers, and how quickly.
func (s *server) checkReach(r *diagnosis.Report) {
	c := s.Check("reach", &r.Findings)
	switch {
	case s.trouble != nil && refusedBy(s.trouble):
		c.FailAs(diagnosis.Denied, "give user and password in the URL, and let the user run PING", "refused: %s", diagnosis.OneLine(s.trouble))
	case s.trouble != nil && s.role == replica:
		c.Warn("start it, or allow connections to it: it is needed when its master fails", "the replica does not answer: %s", diagnosis.OneLine(s.trouble))
	case s.trouble != nil:
		c.FailAs(diagnosis.Unreachable, "check that it runs, the address in the URL, and the network in between", "no answer: %s", diagnosis.OneLine(s.trouble))
	case s.unready == nil:
		c.With("rtt_median_ms", diagnosis.Millis(s.rtts.Median())).With("rtt_max_ms", diagnosis.Millis(s.rtts.Longest())).With("role", string(s.role)).
			OK("%s; %d pings: median %s, max %s", s.role, len(s.rtts), diagnosis.Span(s.rtts.Median()), diagnosis.Span(s.rtts.Longest()))
	case strings.HasPrefix(s.unready.Error(), "MISCONF"):
		c.Fail("see the finding about persistence", "it refuses every write: %s", diagnosis.OneLine(s.unready))
	case strings.HasPrefix(s.unready.Error(), "BUSY"):
		c.FailAs(diagnosis.Unreachable, "end the script with SCRIPT KILL or FUNCTION KILL, and find out which program runs it", "it is busy with a script and answers no other command: %s", diagnosis.OneLine(s.unready))
	default:
		c.FailAs(diagnosis.Unreachable, "wait until it is ready, and check its log", "it answers but is not ready: %s", diagnosis.OneLine(s.unready))
	}
}

// checkAnswers reports which sources of the other checks the server refuses.
func (s *server) checkAnswers(r *diagnosis.Report) {
	if s.infoErr != nil {
		s.Check("info", &r.Findings).Unknown("let the user run INFO, which reads only: +info", "INFO is refused: %s", diagnosis.OneLine(s.infoErr))
	}
	if s.confErr != nil && len(s.conf) == 0 {
		s.Check("config", &r.Findings).Unknown("look for appendfsync, save, min-replicas-to-write and timeout in the service's console, or let the user run CONFIG GET: +config|get",
			"CONFIG GET is refused: %s", diagnosis.OneLine(s.confErr))
	}
}

// checkMode checks that the URL's scheme fits the server.
func (s *server) checkMode(r *diagnosis.Report, of *site) {
	c := s.Check("mode", &r.Findings)
	single := of.node.Kind == singleURL
	switch {
	case s.info["redis_mode"] == "sentinel":
		c.Fail("write redis+sentinel://HOST:PORT,HOST:PORT/MASTER", "this is a Sentinel, which stores no leases")
	case single && s.info["cluster_enabled"] == "1":
		c.Fail("write redis+cluster://HOST:PORT,HOST:PORT", "this is one server of a cluster: resources of other slots are refused")
	case single && s.info["role"] == "slave":
		c.Fail("give the URL of the master, or of the Sentinels", "this is a replica of %s:%s: it refuses to write", s.info["master_host"], s.info["master_port"])
	case s.info["role"] == "active-replica":
		c.Fail("set active-replica no", "active replicas both grant, so a resource can have two holders")
	}
}
