package doctor

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
)

const (
	singleURL   = store.Single
	clusterURL  = store.Cluster
	sentinelURL = store.Sentinel
)

// lagWarn is the lag, in seconds since the last acknowledgement of a replica, above which there is a
// warning. A replica acknowledges every second.
const lagWarn = 3

// checkReplication checks a master's replicas, or a replica's master.
func (s *server) checkReplication(of *site) []diagnosis.Finding {
	if s.infoErr != nil {
		return nil
	}
	if s.info["role"] == "slave" {
		if of.node.Kind == singleURL {
			return nil // checkMode reports it
		}
		return s.checkUpstream()
	}
	return append(s.checkReplicas(of), s.checkMinimum(of)...)
}

// checkUpstream checks a replica.
func (s *server) checkUpstream() []diagnosis.Finding {
	const check = "replication"
	from := s.info["master_host"] + ":" + s.info["master_port"]
	switch {
	case s.info["master_link_status"] != "up":
		return []diagnosis.Finding{s.Warn(check, "check its log: address, masterauth, and the network in between", "the link to its master %s is %s: if it were promoted now, it would lack new leases",
			from, orUnknown(s.info["master_link_status"]))}
	case s.info["slave_priority"] == "0":
		return []diagnosis.Finding{s.OK(check, "replica of %s, never to be promoted (replica-priority 0)", from)}
	}
	return []diagnosis.Finding{s.OK(check, "replica of %s", from)}
}

// checkReplicas checks a master's state of its replicas.
func (s *server) checkReplicas(of *site) []diagnosis.Finding {
	const check = "replication"
	n, ok := s.info.number("connected_slaves")
	switch {
	case !ok:
		return nil
	case n == 0 && of.node.Kind == singleURL:
		return []diagnosis.Finding{s.OK(check, "no replicas: while it is away no lease is granted")}
	case n == 0:
		return []diagnosis.Finding{s.Warn(check, "add a replica", "no replica is connected, so none can take over")}
	}
	var late []string
	most := int64(0)
	offset, _ := s.info.number("master_repl_offset")
	for i := range n {
		r := parseReplica(s.info["slave"+strconv.FormatInt(i, 10)])
		behind, _ := r.number("offset")
		most = max(most, offset-behind)
		lag, _ := r.number("lag")
		if r["state"] != "online" || lag > lagWarn {
			late = append(late, fmt.Sprintf("%s:%s (%s, last acknowledgement %d s ago)", r["ip"], r["port"], orUnknown(r["state"]), lag))
		}
	}
	if len(late) > 0 {
		return []diagnosis.Finding{s.Warn(check, "check the replica's log and the network: leases that it lacks are lost if it is promoted",
			"%d of %d replicas do not keep up: %s", len(late), n, strings.Join(late, ", ")).With("bytes_behind", most)}
	}
	return []diagnosis.Finding{s.OK(check, "%d replicas, at most %d bytes behind", n, most).With("replicas", n).With("bytes_behind", most)}
}

// checkMinimum checks min-replicas-to-write: without it a master that is cut off continues to grant
// leases, which are lost.
func (s *server) checkMinimum(of *site) []diagnosis.Finding {
	const check = "min-replicas"
	text, ok := s.conf["min-replicas-to-write"]
	if !ok {
		return nil
	}
	least, _ := fields{"n": text}.number("n")
	good, told := s.info.number("min_slaves_good_slaves")
	connected, _ := s.info.number("connected_slaves")
	lag := s.conf["min-replicas-max-lag"]
	switch {
	case least > 0 && told && good < least:
		return []diagnosis.Finding{s.Fail(check, "bring its replicas back, or lower min-replicas-to-write",
			"min-replicas-to-write %d, and %d replicas keep up: every grant is refused", least, good)}
	case least > 0:
		return []diagnosis.Finding{s.OK(check, "min-replicas-to-write %d, min-replicas-max-lag %s", least, lag)}
	case of.node.Kind != singleURL && connected > 0:
		return []diagnosis.Finding{s.Warn(check, "set min-replicas-to-write 1 and min-replicas-max-lag 10; goredis.WithReplicas confirms each grant",
			"min-replicas-to-write 0: a master that is cut off continues to grant, and the failover discards these grants")}
	}
	return nil
}

// parseReplica parses a line like ip=127.0.0.1,port=6380,state=online,offset=98,lag=1.
func parseReplica(text string) fields {
	f := fields{}
	for pair := range strings.SplitSeq(text, ",") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			f[name] = value
		}
	}
	return f
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}
