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
func (s *server) checkReplication(r *diagnosis.Report, of *site) {
	switch {
	case s.infoErr != nil:
	case s.info["role"] != "slave":
		s.checkReplicas(r, of)
		s.checkMinimum(r, of)
	case of.node.Kind != singleURL: // otherwise checkMode reports it
		s.checkUpstream(r)
	}
}

// checkUpstream checks a replica.
func (s *server) checkUpstream(r *diagnosis.Report) {
	c := s.Check("replication", &r.Findings)
	from := s.info["master_host"] + ":" + s.info["master_port"]
	switch {
	case s.info["master_link_status"] != "up":
		c.Warn("check its log: address, masterauth, and the network in between", "the link to its master %s is %s: if it were promoted now, it would lack new leases",
			from, orUnknown(s.info["master_link_status"]))
	case s.info["slave_priority"] == "0":
		c.OK("replica of %s, never to be promoted (replica-priority 0)", from)
	default:
		c.OK("replica of %s", from)
	}
}

// checkReplicas checks a master's state of its replicas.
func (s *server) checkReplicas(r *diagnosis.Report, of *site) {
	c := s.Check("replication", &r.Findings)
	n, ok := s.info.number("connected_slaves")
	switch {
	case !ok:
		return
	case n == 0 && of.node.Kind == singleURL:
		c.OK("no replicas: while it is away no lease is granted")
		return
	case n == 0:
		c.Warn("add a replica", "no replica is connected, so none can take over")
		return
	}
	var late []string
	most := int64(0)
	offset, _ := s.info.number("master_repl_offset")
	for i := range n {
		f := parseReplica(s.info["slave"+strconv.FormatInt(i, 10)])
		behind, _ := f.number("offset")
		most = max(most, offset-behind)
		lag, _ := f.number("lag")
		if f["state"] != "online" || lag > lagWarn {
			late = append(late, fmt.Sprintf("%s:%s (%s, last acknowledgement %d s ago)", f["ip"], f["port"], orUnknown(f["state"]), lag))
		}
	}
	if len(late) > 0 {
		c.With("bytes_behind", most).Warn("check the replica's log and the network: leases that it lacks are lost if it is promoted",
			"%d of %d replicas do not keep up: %s", len(late), n, strings.Join(late, ", "))
		return
	}
	c.With("replicas", n).With("bytes_behind", most).OK("%d replicas, at most %d bytes behind", n, most)
}

// checkMinimum checks min-replicas-to-write: without it a master that is cut off continues to grant
// leases, which are lost.
func (s *server) checkMinimum(r *diagnosis.Report, of *site) {
	c := s.Check("min-replicas", &r.Findings)
	text, ok := s.conf["min-replicas-to-write"]
	if !ok {
		return
	}
	least, _ := fields{"n": text}.number("n")
	good, told := s.info.number("min_slaves_good_slaves")
	connected, _ := s.info.number("connected_slaves")
	lag := s.conf["min-replicas-max-lag"]
	switch {
	case least > 0 && told && good < least:
		c.Fail("bring its replicas back, or lower min-replicas-to-write",
			"min-replicas-to-write %d, and %d replicas keep up: every grant is refused", least, good)
	case least > 0:
		c.OK("min-replicas-to-write %d, min-replicas-max-lag %s", least, lag)
	case of.node.Kind != singleURL && connected > 0:
		c.Warn("set min-replicas-to-write 1 and min-replicas-max-lag 10; goredis.WithReplicas confirms each grant",
			"min-replicas-to-write 0: a master that is cut off continues to grant, and the failover discards these grants")
	}
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
