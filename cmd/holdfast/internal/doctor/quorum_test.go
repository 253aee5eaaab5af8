package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestQuorum(t *testing.T) {
	t.Parallel()
	a, b, c := start(t), start(t), start(t)
	three := urls([]*redistest.Server{a, b, c})
	r := examine(t, defaults(), three...)
	require(t, r, "quorum", diagnosis.OK, "3 of 3 nodes answer, 2 are needed")
	require(t, r, "independence", diagnosis.Warn, "on 127.0.0.1: they fail together")
	require(t, r, "clock", diagnosis.OK, "the servers' clocks are within")
	require(t, r, "restart", diagnosis.OK, "keeps every vote")
	requireWorst(t, r, diagnosis.None)

	require(t, examine(t, defaults(), three[:2]...), "quorum", diagnosis.Warn, "2 nodes tolerate no more failures than 1 would")

	// One away is what a quorum is for.
	b.Kill()
	r = examine(t, defaults(), three...)
	require(t, r, "reach", diagnosis.Warn, "no answer")
	require(t, r, "quorum", diagnosis.Warn, "2 of 3 nodes answer: no other may fail")
	requireWorst(t, r, diagnosis.None)

	a.Pause()
	r = examine(t, defaults(), three...)
	require(t, r, "quorum", diagnosis.Fail, "1 of 3 nodes answer, 2 are needed")
	requireWorst(t, r, diagnosis.Unreachable)
}

func TestAQuorumThatRefuses(t *testing.T) {
	var three []string
	for range 3 {
		three = append(three, strings.Replace(start(t, "--requirepass", "s3cret").URL(), "://", "://:wr0ng@", 1))
	}
	r := examine(t, defaults(), three...)
	require(t, r, "quorum", diagnosis.Fail, "0 of 3 nodes accept the user, 2 are needed")
	requireWorst(t, r, diagnosis.Denied)
}

func TestIndependence(t *testing.T) {
	a, b := start(t, "--repl-diskless-sync-delay", "0"), start(t)
	twice := strings.Replace(a.URL(), "127.0.0.1", "localhost", 1)
	r := examine(t, defaults(), a.URL(), b.URL(), twice)
	require(t, r, "independence", diagnosis.Fail, "are the same server")
	requireWorst(t, r, diagnosis.Misconfig)

	copied := start(t, "--replicaof", "127.0.0.1 "+port(a))
	awaitInfo(t, a, online)
	r = examine(t, defaults(), a.URL(), b.URL(), copied.URL())
	require(t, r, "independence", diagnosis.Fail, "are replicas of one another")
	require(t, r, "quorum", diagnosis.Warn, "2 of 3 nodes answer")
	requireWorst(t, r, diagnosis.Misconfig)
}

func TestRestart(t *testing.T) {
	t.Parallel()
	nodes := func(args ...string) (all []*redistest.Server) {
		for range 3 {
			all = append(all, redistest.Start(t, redistest.WithArgs(args...)))
		}
		return all
	}
	forgetful, careful := nodes(), nodes("--appendonly", "yes")
	o := defaults()
	r := examine(t, o, urls(forgetful)...)
	require(t, r, "restart", diagnosis.Fail, "may have forgotten a vote")
	if f := require(t, r, "persistence", diagnosis.Warn, "^none"); f.Remedy != "set appendonly yes and appendfsync always" {
		t.Errorf("remedy %q", f.Remedy)
	}
	requireWorst(t, r, diagnosis.Misconfig)

	// Once it is up for longer than the longest TTL.
	o.TTL = time.Second
	for _, s := range append(forgetful, careful...) {
		awaitInfo(t, s, func(f fields) bool {
			seconds, _ := f.number("uptime_in_seconds")
			return seconds >= 1
		})
	}
	require(t, examine(t, o, urls(forgetful)...), "restart", diagnosis.Warn, "if it comes back within 1s it votes twice")
	require(t, examine(t, o, urls(careful)...), "restart", diagnosis.OK, "after a power loss or a crash keep it out of service for 1s")
}

func urls(all []*redistest.Server) (out []string) {
	for _, s := range all {
		out = append(out, s.URL())
	}
	return out
}

func TestClocksApart(t *testing.T) {
	t.Parallel()
	var three []string
	var all []*miniredis.Miniredis
	for range 3 {
		m := miniredis.RunT(t)
		three, all = append(three, "redis://"+m.Addr()), append(all, m)
	}
	all[1].SetTime(time.Now().Add(-time.Minute))
	f := require(t, examine(t, defaults(), three...), "clock", diagnosis.Warn, all[1].Addr()+" and .* are 1m0s apart|are 59.*s apart")
	if ms, ok := f.Values["skew_ms"].(float64); !ok || ms < 59_000 || ms > 61_000 {
		t.Errorf("values %v", f.Values)
	}
	all[1].SetTime(time.Now().Add(48 * time.Hour))
	r := examine(t, defaults(), three...)
	require(t, r, "clock", diagnosis.Fail, "refuses the other's tokens")
	requireWorst(t, r, diagnosis.Misconfig)

	// This machine against all nodes.
	for _, c := range []struct {
		ahead time.Duration
		want  diagnosis.FindingStatus
		text  string
	}{
		{time.Minute, diagnosis.Warn, "this machine's clock is .* behind all nodes"},
		{-time.Minute, diagnosis.Warn, "this machine's clock is .* ahead of all nodes"},
		{-48 * time.Hour, diagnosis.Fail, "this machine's clock is .* ahead of all nodes: they refuse its tokens"},
	} {
		for _, m := range all {
			m.SetTime(time.Now().Add(c.ahead))
		}
		require(t, examine(t, defaults(), three...), "clock", c.want, c.text)
	}
}

func TestMajorityOfDifferentStores(t *testing.T) {
	var well, away, weak []diagnosis.Finding
	one := diagnosis.Place("db:5432")
	one.Check("reach", &well).OK("PostgreSQL")
	one.Check("durability", &well).Warn("mend", "fsync off")
	one.Check("reach", &away).FailAs(diagnosis.Unreachable, "start it", "no answer")
	one.Check("rights", &weak).FailAs(diagnosis.Denied, "GRANT", "may not")
	for _, c := range []struct {
		others [][]diagnosis.Finding
		want   attendance
		status diagnosis.FindingStatus
		worst  diagnosis.Fault // after soften
	}{
		{[][]diagnosis.Finding{well, well, well}, attendance{3, 3, 0}, diagnosis.OK, diagnosis.None},
		{[][]diagnosis.Finding{well, away, well}, attendance{3, 2, 0}, diagnosis.Warn, diagnosis.None},
		{[][]diagnosis.Finding{well, away, away}, attendance{3, 1, 0}, diagnosis.Fail, diagnosis.Unreachable},
		{[][]diagnosis.Finding{well, weak, weak}, attendance{3, 1, 2}, diagnosis.Fail, diagnosis.Denied},
	} {
		a := attend(nil, c.others)
		if a != c.want {
			t.Errorf("%+v, want %+v", a, c.want)
		}
		r := &diagnosis.Report{}
		a.check(r)
		require(t, r, "quorum", c.status, "")
		for _, found := range c.others {
			r.Add(found...)
		}
		a.soften(r)
		requireWorst(t, r, c.worst)
	}
}
