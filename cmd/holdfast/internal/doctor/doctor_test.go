package doctor

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/diagnosis"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/store"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) {
	logging.Disable() // go-redis's own words about servers that are away
	os.Exit(m.Run())
}

// defaults are the options of most tests.
func defaults() diagnosis.Options {
	return diagnosis.Options{Prefix: "holdfast", TTL: 15 * time.Second}
}

// examine examines the store of the URLs.
func examine(t *testing.T, o diagnosis.Options, urls ...string) *diagnosis.Report {
	t.Helper()
	st, err := store.Opener{}.Open(strings.Join(urls, ","))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	return Examine(t.Context(), st, o)
}

// require fails unless the report has a finding that matches.
func require(t *testing.T, r *diagnosis.Report, check string, status diagnosis.FindingStatus, pattern string) diagnosis.Finding {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for _, f := range r.Findings {
		if f.Check == check && f.Status == status && re.MatchString(f.Found) {
			if (status == diagnosis.Warn || status == diagnosis.Fail || status == diagnosis.Unknown) && f.Remedy == "" {
				t.Errorf("no remedy: %+v", f)
			}
			return f
		}
	}
	t.Fatalf("no finding %s %s %q in\n%s", status, check, pattern, lines(r))
	return diagnosis.Finding{}
}

// requireWorst fails unless the report ends with the fault.
func requireWorst(t *testing.T, r *diagnosis.Report, want diagnosis.Fault) {
	t.Helper()
	if got := r.Worst(); got != want {
		t.Errorf("worst fault %q, want %q in\n%s", got, want, lines(r))
	}
}

func lines(r *diagnosis.Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s %s %s: %s -> %s\n", f.Status, f.Check, f.Node, f.Found, f.Remedy)
	}
	return b.String()
}

// start starts a server whose settings are as a lock wants them, and then the
// arguments.
func start(t *testing.T, args ...string) *redistest.Server {
	t.Helper()
	return redistest.Start(t, redistest.WithArgs(append([]string{"--appendonly", "yes", "--appendfsync", "always"}, args...)...))
}

func TestAServerAsItShouldBe(t *testing.T) {
	r := examine(t, defaults(), start(t, "--tcp-keepalive", "60").URL())
	for _, check := range []string{"reach", "version", "eviction", "memory", "persistence", "replication", "rights", "pauses", "connections", "clock", "ttl"} {
		require(t, r, check, diagnosis.OK, "")
	}
	if r.Count(diagnosis.OK) != len(r.Findings) {
		t.Errorf("not all is OK:\n%s", lines(r))
	}
	requireWorst(t, r, diagnosis.None)
}

func TestAStandInForTests(t *testing.T) {
	m := miniredis.RunT(t)
	m.ClockTTL(true)
	r := examine(t, defaults(), "redis://"+m.Addr())
	require(t, r, "version", diagnosis.Warn, "no version, like test servers such as miniredis")
	require(t, r, "eviction", diagnosis.Unknown, "does not disclose")
	require(t, r, "persistence", diagnosis.Unknown, "does not disclose")
	require(t, r, "config", diagnosis.Unknown, "CONFIG GET is refused")
	require(t, r, "rights", diagnosis.OK, "tried with a resource with a random name")
	requireWorst(t, r, diagnosis.None)
}

func TestManagedServicesHideTheirConfiguration(t *testing.T) {
	s := start(t, "--rename-command", "CONFIG", "")
	r := examine(t, defaults(), s.URL())
	require(t, r, "config", diagnosis.Unknown, "unknown command")
	require(t, r, "persistence", diagnosis.Unknown, "append-only file; how often")
	require(t, r, "eviction", diagnosis.OK, "noeviction") // INFO has it too
	require(t, r, "rights", diagnosis.OK, "")
	requireWorst(t, r, diagnosis.None)
}

func TestNothingIsLeftOver(t *testing.T) {
	s := start(t)
	c := s.Client()
	if err := c.Do(t.Context(), "acl", "setuser", "ann", "on", ">pw", "+@all", "-acl", "~holdfast:*", "&holdfast:*").Err(); err != nil {
		t.Fatal(err)
	}
	r := examine(t, defaults(), "redis://ann:pw@"+s.Addr())
	require(t, r, "rights", diagnosis.OK, "tried")
	keys, err := s.Keys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		if k.TTL == redistest.NoTTL || k.TTL > 2*time.Minute {
			t.Errorf("%q stays for %v", k.Name, k.TTL)
		}
	}
	if len(keys) == 0 {
		t.Error("no keys: was nothing tried?")
	}
	s.Client().FlushAll(t.Context())
	examine(t, defaults(), s.URL())
	s.RequireEmpty(t, "") // asking leaves nothing
}
