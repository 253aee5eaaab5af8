package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
)

// sentinel is one Sentinel and its answers.
type sentinel struct {
	diagnosis.Place
	trouble  error    // set: it did not answer
	known    []string // the masters that it knows
	master   fields   // SENTINEL MASTER; empty: it does not know the name
	replicas []fields
	others   []fields
	quorum   error // SENTINEL CKQUORUM
}

// findBySentinels gets the servers from all Sentinels, including those that the URL does not name.
func (s *site) findBySentinels(ctx context.Context) {
	asked := map[string]bool{}
	for addrs := s.node.Addrs; len(addrs) > 0; {
		s.askSentinels(ctx, addrs, asked)
		addrs = nil
		for _, g := range s.sentinels {
			for _, o := range g.others {
				if addr := net.JoinHostPort(o["ip"], o["port"]); !asked[addr] && !slices.Contains(addrs, addr) && !s.askedAs(o["runid"]) {
					addrs = append(addrs, addr)
				}
			}
		}
	}
	if addr := s.masterAddr(); addr != "" {
		s.servers = append(s.servers, s.newServer(addr, master))
	}
	for _, g := range s.sentinels {
		for _, r := range g.replicas {
			addr := net.JoinHostPort(r["ip"], r["port"])
			if !slices.ContainsFunc(s.servers, func(o *server) bool { return string(o.Place) == addr }) {
				s.servers = append(s.servers, s.newServer(addr, replica))
			}
		}
	}
}

func (s *site) askSentinels(ctx context.Context, addrs []string, asked map[string]bool) {
	var wait sync.WaitGroup
	for _, addr := range addrs {
		asked[addr] = true
		g := &sentinel{Place: diagnosis.Place(addr)}
		s.sentinels = append(s.sentinels, g)
		wait.Go(func() {
			rdb := s.node.SentinelAt(addr)
			defer rdb.Close()
			g.ask(ctx, rdb, s.node.Master)
		})
	}
	wait.Wait()
}

// askedAs reports whether a Sentinel was queried already under another address, such as a host name.
func (s *site) askedAs(id string) bool {
	return slices.ContainsFunc(s.sentinels, func(g *sentinel) bool { return id != "" && g.master["my-id"] == id })
}

func (g *sentinel) ask(ctx context.Context, rdb *redis.Client, name string) {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	if g.trouble = rdb.Ping(ctx).Err(); g.trouble != nil {
		return
	}
	table := func(what string) []fields {
		cmd := redis.NewMapStringStringSliceCmd(ctx, "sentinel", what, name)
		_ = rdb.Process(ctx, cmd) // empty after an error, which SENTINEL MASTER returns too
		var rows []fields
		for _, row := range cmd.Val() {
			rows = append(rows, row)
		}
		return rows
	}
	one := redis.NewMapStringStringCmd(ctx, "sentinel", "master", name)
	_ = rdb.Process(ctx, one)
	var answered redis.Error
	if err := one.Err(); err != nil && (refusedBy(err) || !errors.As(err, &answered)) {
		g.trouble = err
		return
	}
	g.master = maps.Clone(one.Val())
	if len(g.master) == 0 {
		all := redis.NewMapStringStringSliceCmd(ctx, "sentinel", "masters")
		_ = rdb.Process(ctx, all) // for the message only
		for _, m := range all.Val() {
			g.known = append(g.known, m["name"])
		}
		return
	}
	if id, err := rdb.Do(ctx, "sentinel", "myid").Text(); err == nil {
		g.master["my-id"] = id
	}
	g.replicas, g.others = table("replicas"), table("sentinels")
	g.quorum = rdb.Do(ctx, "sentinel", "ckquorum", name).Err()
}

// masterAddr returns the address that most Sentinels name.
func (s *site) masterAddr() string {
	votes, best := map[string]int{}, ""
	for _, g := range s.sentinels {
		if len(g.master) > 0 {
			votes[g.address()]++
		}
	}
	for _, addr := range slices.Sorted(maps.Keys(votes)) {
		if votes[addr] > votes[best] {
			best = addr
		}
	}
	return best
}

func (g *sentinel) address() string { return net.JoinHostPort(g.master["ip"], g.master["port"]) }

// checkSentinels checks the Sentinels, which decide on a failover.
func (s *site) checkSentinels(r *diagnosis.Report) {
	c := s.Check("sentinel", &r.Findings)
	var answering, named []*sentinel
	for _, g := range s.sentinels {
		switch {
		case g.trouble != nil && refusedBy(g.trouble):
			c.At(g.Place).FailAs(diagnosis.Denied, "give sentinel_username and sentinel_password after the URL's question mark", "refused: %s", diagnosis.OneLine(g.trouble))
		case g.trouble != nil:
			c.At(g.Place).Warn("start it, or allow connections to it", "no answer: %s", diagnosis.OneLine(g.trouble))
		case len(g.master) == 0:
			answering = append(answering, g)
			c.At(g.Place).Fail("correct the name at the end of the URL, or let the Sentinel monitor it",
				"it does not know the master %q, but %s", s.node.Master, listOr(g.known, "none"))
		default:
			answering, named = append(answering, g), append(named, g)
		}
	}
	found := c.Found()
	switch {
	case len(answering) == 0 && len(found) > 0 && !slices.ContainsFunc(found, func(f diagnosis.Finding) bool { return f.Fault == diagnosis.Denied }):
		c.FailAs(diagnosis.Unreachable, "check that they run, and the addresses in the URL", "no Sentinel answers")
	case len(named) > 0:
		s.checkAgreement(r, named)
		s.checkVoters(r, named)
	}
}

// checkAgreement checks that all Sentinels name the same master and see it as up.
func (s *site) checkAgreement(r *diagnosis.Report, all []*sentinel) {
	c := s.Check("sentinel", &r.Findings)
	var names []string
	for _, g := range all {
		if addr := g.address(); !slices.Contains(names, addr) {
			names = append(names, addr)
		}
	}
	flags := all[0].master["flags"]
	var masters []string
	for _, srv := range s.masters() {
		masters = append(masters, string(srv.Place))
	}
	switch {
	case len(names) > 1:
		c.Fail("wait for the end of a failover; else reset those that are behind (SENTINEL RESET)", "the Sentinels name different masters: %s", strings.Join(names, ", "))
	case strings.Contains(flags, "down"):
		c.FailAs(diagnosis.Unreachable, "start the master, or check the Sentinels' logs for the reason why no replica takes over", "the master %s is thought to be down (%s)", names[0], flags)
	case len(masters) > 1:
		c.Fail("wait for the end of a failover; else make one a replica again (REPLICAOF)", "several servers are masters: %s", strings.Join(masters, ", "))
	default:
		c.OK("%d of %d Sentinels name %s as master", len(all), len(s.sentinels), names[0])
	}
}

// checkVoters checks that there are enough Sentinels and that they can agree.
func (s *site) checkVoters(r *diagnosis.Report, all []*sentinel) {
	c := s.Check("failover", &r.Findings)
	g := all[0]
	others, _ := g.master.number("num-other-sentinels")
	quorum, _ := g.master.number("quorum")
	voters, replicas := others+1, int64(len(g.replicas))
	down, _ := g.master.number("down-after-milliseconds")
	c = c.With("sentinels", voters).With("quorum", quorum).With("down_after_ms", down).With("replicas", replicas)
	if g.quorum != nil {
		c.Fail("bring Sentinels back, or lower the quorum (SENTINEL SET)", "no failover is possible now: %s", diagnosis.OneLine(g.quorum))
	}
	c.WarnIf(replicas == 0, "add a replica", "the master has no replica that could take over")
	switch {
	case voters < 3:
		c.Warn("run 3 Sentinels on 3 machines", "%d Sentinels: without one of them no failover is possible", voters)
	case quorum == voters:
		c.Warn("set the quorum to "+fmt.Sprint(voters/2+1), "quorum %d of %d: without one Sentinel no failure is detected", quorum, voters)
	case quorum == 1:
		c.Warn("set the quorum to "+fmt.Sprint(voters/2+1), "quorum 1 of %d: one Sentinel that is cut off starts a failover", voters)
	}
	c.WarnIf(int64(len(s.node.Addrs)) < min(voters, 2), "name all Sentinels in the URL", "the URL names %d of %d Sentinels: without it no master is found", len(s.node.Addrs), voters)
	c.Otherwise("%d Sentinels, quorum %d, %d replicas, down-after %s", voters, quorum, replicas, g.master["down-after-milliseconds"]+" ms")
}

func listOr(names []string, none string) string {
	if len(names) == 0 {
		return none
	}
	return strings.Join(names, ", ")
}
