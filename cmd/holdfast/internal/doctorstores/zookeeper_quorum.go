package doctorstores

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

const allowWords = "allow the words that only read: 4lw.commands.whitelist=srvr,mntr,conf"

// quorum checks that one server leads, and that another one may fail.
func (z *zooKeeper) quorum() {
	c := z.check("quorum")
	var leaders []string
	serving, known, hidden := 0, 0, 0
	for _, s := range z.servers {
		switch {
		case s.trouble != nil:
			c.At(s.Place).Warn("start it, or correct its address in the URL, and allow connections to it", "the server does not answer: %s", diagnosis.OneLine(s.trouble))
			continue
		case s.idle:
			c.At(s.Place).Warn("check its log, and its connections to the others", "the server has no majority, and serves no clients")
			continue
		case s.hidden:
			hidden++
			c.At(s.Place).Unknown(allowWords, "the server does not disclose its state")
			continue
		}
		known++
		switch mode := s.srvr["Mode"]; mode {
		case "leader", "standalone":
			leaders = append(leaders, string(s.Place))
			serving++
		case "follower":
			serving++
		case "read-only":
			c.At(s.Place).Warn("check its connections to the others", "the server is read-only: it has no majority")
		}
	}
	voters := max(1, len(z.voters))
	need := voters/2 + 1
	c = z.check("quorum").With("servers", voters).With("serving", serving).With("majority", need)
	switch {
	case len(leaders) > 1:
		c.Fail("give the servers of one ensemble in a URL; of several in several URLs, with commas between them", "%s are leaders of different ensembles: both grant", strings.Join(leaders, " and "))
		return
	case known == 0:
		return // the findings of each server are enough
	case serving == 0:
		c.FailAs(diagnosis.Unreachable, "bring servers back: nothing can be locked", "no server has a majority")
		return
	case len(z.voters) == 0:
		c.OK("one server: while it is away no lease is granted")
		return
	case hidden == 0 && serving <= need && serving < voters && len(z.servers) >= voters:
		c.Warn("bring the others back", "%d of %d servers serve: no other may fail", serving, voters)
	}
	c.WarnIf(voters%2 == 0, "use 3 or 5 servers", "%d servers tolerate no more failures than %d would", voters, voters-1)
	c.WarnIf(len(z.servers) < voters, "name all servers in the URL", "the URL names %d of %d servers: a client cannot go to the others", len(z.servers), voters)
	c.Otherwise("%d of %d servers serve, %d are needed", serving, voters, need)
}

// oldestZooKeeper is the first version with the container znodes that the engine makes.
const oldestZooKeeper = "3.5"

func (z *zooKeeper) version() {
	var versions []versionAt
	for _, s := range z.servers {
		v, _, _ := strings.Cut(s.srvr["Zookeeper version"], "-")
		v, _, _ = strings.Cut(v, ",")
		versions = append(versions, versionAt{s.Place, v})
	}
	z.compareVersions("ZooKeeper", oldestZooKeeper, "servers", versions)
}

const (
	// fewConnections is the limit of connections an address below which there is a warning.
	fewConnections = 20
	// manyOutstanding is how many requests may wait in a server without a warning.
	manyOutstanding = 500
)

// sessions checks the limits of connections and sessions.
func (z *zooKeeper) sessions() {
	for _, s := range z.servers {
		if s.trouble != nil || s.idle {
			continue
		}
		c := s.Check("sessions", &z.findings)
		shortest, longest, most := s.number(s.conf, "minSessionTimeout"), s.number(s.conf, "maxSessionTimeout"), s.number(s.conf, "maxClientCnxns")
		if shortest < 0 {
			c.Unknown(allowWords, "the server does not disclose its limits of connections and sessions")
			continue
		}
		least := time.Duration(shortest) * time.Millisecond
		c = c.With("min_session_ms", shortest).With("max_session_ms", longest).With("connections_per_address", most)
		c.WarnIf(least > z.TTL/3, "set minSessionTimeout to a third of the TTL, or use a longer TTL",
			"a session lasts %s at least, more than a third of the TTL: leases may be lost before a client has left a server that hangs", diagnosis.Span(least))
		c.WarnIf(most > 0 && most < fewConnections, "set maxClientCnxns = 60 or more, or 0", "maxClientCnxns %.0f: further processes of one address cannot connect", most)
		c.Otherwise("session timeouts from %s to %s, %s connections an address", diagnosis.Span(least), diagnosis.Span(time.Duration(longest)*time.Millisecond), orAny(most))
	}
}

func orAny(most float64) string {
	if most <= 0 {
		return "any number of"
	}
	return strconv.FormatFloat(most, 'f', 0, 64)
}

// load checks for servers that do not keep up.
func (z *zooKeeper) load() {
	for _, s := range z.servers {
		if waiting := s.number(s.srvr, "Outstanding"); waiting > manyOutstanding {
			s.Check("load", &z.findings).With("outstanding", waiting).Warn("look for what keeps it busy: its disk, garbage collection, other clients", "%.0f requests wait in the server", waiting)
		}
	}
}

// fsync checks that servers write to disk before they answer. They do not show forceSync, but count their fsyncs: with
// forceSync=no there was none for the changes of the trial.
func (z *zooKeeper) fsync(ctx context.Context) {
	const fsyncs, mean = "zk_cnt_fsynctime", "zk_avg_fsynctime"
	for _, s := range z.servers {
		if s.srvr == nil {
			continue
		}
		earlier, zxid := s.number(s.mntr, fsyncs), s.srvr["Zxid"]
		s.askMetrics(ctx)
		text, _ := s.word(ctx, "srvr")
		changed := pairs(text, ":")["Zxid"] != zxid
		took := time.Duration(s.number(s.mntr, mean) * float64(time.Millisecond))
		now := s.number(s.mntr, fsyncs)
		c := s.Check("durability", &z.findings).With("fsyncs", now).With("fsync_mean_ms", diagnosis.Millis(took))
		switch {
		case earlier < 0 || now < 0 || !changed:
			c.Unknown("check that it runs without forceSync=no; "+allowWords+", of ZooKeeper 3.6 or newer", "whether the server writes to disk before it answers: it does not disclose its counters, or shows no change")
		case now == earlier:
			c.Warn("remove forceSync=no", "the server does not write its log to disk before it answers (forceSync=no): a power failure of a majority forgets leases, and two may hold a resource")
		case took > slowDisk:
			c.Warn("give ZooKeeper a faster disk, of its own (dataLogDir)", "an fsync of the log takes %s on average, and each grant and renewal waits for one on a majority", diagnosis.Span(took))
		default:
			c.OK("the log is written to disk, which takes %s on average", diagnosis.Span(took))
		}
	}
}
