package doctor

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// user makes a user ann with these rules and returns the URL.
func user(t *testing.T, s *redistest.Server, rules string) string {
	t.Helper()
	args := []any{"acl", "setuser", "ann", "reset", "on", ">pw"}
	for _, rule := range strings.Fields(rules) {
		args = append(args, rule)
	}
	if err := s.Client().Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	return "redis://ann:pw@" + s.Addr()
}

// protocol is the list of commands in docs/PROTOCOL.md.
func protocol(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("An ACL user needs `([^`]+)`").FindSubmatch(text)
	if found == nil {
		t.Fatal("docs/PROTOCOL.md has no list of commands")
	}
	return strings.Fields(string(found[1]))
}

func TestCommandsAreThoseOfTheProtocol(t *testing.T) {
	written := protocol(t)
	var ours []string
	for _, d := range protocolCommands("p") {
		ours = append(ours, d.name())
		if !slices.Contains(written, d.name()) {
			t.Errorf("the doctor asks for %s, which docs/PROTOCOL.md does not have", d.name())
		}
	}
	for _, d := range clusterCommands("p") {
		ours = append(ours, d.name())
	}
	for _, d := range singleCommands("p") {
		ours = append(ours, d.name())
	}
	for _, name := range written {
		if !slices.Contains(ours, name) {
			t.Errorf("docs/PROTOCOL.md has %s, for which the doctor does not ask", name)
		}
	}
}

func TestRights(t *testing.T) {
	t.Parallel()
	s := start(t)
	all := "+pubsub +" + strings.Join(protocol(t), " +")
	const onOurs = " ~holdfast:* &holdfast:*"
	for _, c := range []struct {
		name, rules string
		status      diagnosis.FindingStatus
		found       string
		remedy      string
	}{
		{"enough, and may ask", all + " +acl" + onOurs, diagnosis.OK, "user ann has all rights", ""},
		{"no pubsub", all + " +acl -pubsub" + onOurs, diagnosis.Warn, `may not run pubsub.numsub on holdfast:., so a waiter that dies delays those behind it by up to 3s`, `^ACL SETUSER ann '\+pubsub\|numsub'$`},
		{"no pubsub and no hset", all + " -hset -pubsub +acl" + onOurs, diagnosis.Fail, "may not run hset, pubsub.numsub on", `^ACL SETUSER ann \+hset '\+pubsub\|numsub'$`},
		{"enough, and may not ask", all + onOurs, diagnosis.OK, "tried with a resource with a random name", ""},
		{"no scripts", all + " +acl -evalsha -eval" + onOurs, diagnosis.Fail, "user ann may not run evalsha, eval on", `^ACL SETUSER ann \+evalsha \+eval$`},
		{"no keys", all + " +acl &holdfast:*", diagnosis.Fail, "may not run evalsha, eval, hmget", `^ACL SETUSER ann '~holdfast:\*'$`},
		{"no channels", all + " +acl ~holdfast:*", diagnosis.Fail, "may not run publish, subscribe", `^ACL SETUSER ann '&holdfast:\*'$`},
		{"other keys", all + " +acl ~other:* &other:*", diagnosis.Fail, "", `'~holdfast:\*' '&holdfast:\*'`},
		{"no channels, and may not ask", all + " ~holdfast:*", diagnosis.Fail, "NOPERM", "PROTOCOL"},
		{"no publish, and may not ask", all + " -publish" + onOurs, diagnosis.Fail, "the wake-up did not come", "PROTOCOL"},
		{"no zadd, and may not ask", all + " -zadd" + onOurs, diagnosis.Fail, "The user executing the script can't run", "PROTOCOL"},
		{"no scan, and may not ask", all + " -scan" + onOurs, diagnosis.Fail, "scan", "PROTOCOL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := examine(t, defaults(), user(t, s, c.rules))
			f := require(t, r, "rights", c.status, c.found)
			if !regexp.MustCompile(c.remedy).MatchString(f.Remedy) {
				t.Errorf("remedy %q, want %q", f.Remedy, c.remedy)
			}
			want := diagnosis.None
			if c.status == diagnosis.Fail {
				want = diagnosis.Denied
			}
			requireWorst(t, r, want)
		})
	}
}

// Read-only, nothing is tried: that the rights are not known is a finding, and the server runs no script.
func TestRightsReadOnly(t *testing.T) {
	t.Parallel()
	s := start(t)
	o := defaults()
	o.ReadOnly = true
	r := examine(t, o, user(t, s, "+"+strings.Join(protocol(t), " +")+" ~holdfast:* &holdfast:*"))
	require(t, r, "rights", diagnosis.Unknown, "nothing is tried here")
	stats, err := s.Client().Info(t.Context(), "commandstats").Result()
	if err != nil || strings.Contains(stats, "cmdstat_eval") || strings.Contains(stats, "cmdstat_set:") {
		t.Errorf("%v; the server has run\n%s", err, stats)
	}
}

func TestRightsInACluster(t *testing.T) {
	t.Parallel()
	s := start(t, "--cluster-enabled", "yes")
	if err := s.Client().ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	awaitCluster(t, s, "cluster_state:ok")
	all := "+cluster +" + strings.Join(protocol(t), " +")
	const onOurs = " ~holdfast:* &holdfast:*"
	for _, c := range []struct {
		rules  string
		status diagnosis.FindingStatus
		found  string
		worst  diagnosis.Fault
	}{
		{all + " +spublish +ssubscribe +acl" + onOurs, diagnosis.OK, "user ann has all rights", diagnosis.None},
		{all + " +spublish +ssubscribe" + onOurs, diagnosis.OK, "tried with a resource with a random name", diagnosis.None},
		{all + " -spublish -ssubscribe" + onOurs, diagnosis.OK, "tried with a resource with a random name", diagnosis.None},
		{all + " -spublish -ssubscribe +acl" + onOurs, diagnosis.Warn, "may not run spublish, ssubscribe on holdfast:., so wake-ups go to all", diagnosis.None},
		{all + " -cluster|slots +spublish +ssubscribe +acl" + onOurs, diagnosis.Fail, "may not run cluster.slots", diagnosis.Denied},
		{all + " -hset +spublish +ssubscribe" + onOurs, diagnosis.Fail, "can't run", diagnosis.Denied},
	} {
		r := examine(t, defaults(), strings.Replace(user(t, s, c.rules), "redis://", "redis+cluster://", 1))
		require(t, r, "rights", c.status, c.found)
		requireWorst(t, r, c.worst)
	}
}

// The remedy, followed word by word, mends it.
func TestRemedyForRightsGrantsThem(t *testing.T) {
	s := start(t)
	url := user(t, s, "+ping +acl")
	o := defaults()
	o.Prefix = "shop"
	for range 3 { // commands first; then keys and channels are told
		r := examine(t, o, url)
		if r.Worst() == diagnosis.None {
			return
		}
		f := require(t, r, "rights", diagnosis.Fail, "")
		args := []any{}
		for _, word := range strings.Fields(f.Remedy) {
			args = append(args, strings.Trim(word, "'"))
		}
		if err := s.Client().Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	requireWorst(t, examine(t, o, url), diagnosis.None)
}
