package ledger

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/lab/history"
)

const ms = time.Millisecond

// start is the start of the histories.
var start = time.Unix(1_700_000_000, 0)

// wrote is a line of MONITOR: a command of a script at an instant of the history.
func wrote(at time.Duration, args ...string) string {
	line := fmt.Sprintf("+%d.%06d [0 lua]", start.Unix(), at.Microseconds())
	for _, arg := range args {
		line += fmt.Sprintf(" %q", arg)
	}
	return line + "\r\n"
}

// score is an instant of the history as Redis stores it.
func score(at time.Duration) string { return fmt.Sprint(start.UnixMicro() + at.Microseconds()) }

// recorded returns a Ledger with the lines.
func recorded(t *testing.T, lines ...string) *Ledger {
	t.Helper()
	l := New("app", start)
	for _, line := range lines {
		at, args, err := parse(line)
		if err != nil {
			t.Fatal(err)
		}
		l.add(at, args)
	}
	return l
}

// relied is a history: w1 acquires x at 10 ms, relies on it until a time, and releases it at 80 ms.
func relied(until time.Duration) []history.Op {
	return []history.Op{
		{Client: "w1", Kind: history.Acquire, Resource: "x", Holder: "w1-1", Store: "c.a", Call: 9 * ms, Return: 10 * ms, Until: until, Outcome: history.OK},
		{Client: "w1", Kind: history.Leave, Resource: "x", Holder: "w1-1", Call: 79 * ms, Return: 79 * ms, Outcome: history.OK},
		{Client: "w1", Kind: history.Release, Resource: "x", Holder: "w1-1", Call: 80 * ms, Return: 81 * ms, Outcome: history.OK},
	}
}

func TestWindowsAreComparedWithTheStore(t *testing.T) {
	const ttl, core = 100 * ms, "app:{x}"
	granted := wrote(9500*time.Microsecond, "HSET", core, "deadline", score(109500*time.Microsecond), "token", "1", "holder", "c.a", "note", "0 0 a \x00 reason")
	released := wrote(80500*time.Microsecond, "HSET", core, "deadline", "mutex:1")
	broken := wrote(40*ms, "HSET", core, "deadline", score(109500*time.Microsecond), "holder", "!c.a")
	passed := wrote(40*ms, "HSET", core, "deadline", score(140*ms), "holder", "c.b")
	window := 109500*time.Microsecond - Margin(ttl)
	lateGrant := wrote(9500*time.Microsecond, "HSET", core, "deadline", score(60*ms), "holder", "c.a")
	for name, c := range map[string]struct {
		until time.Duration
		lines []string
		want  string // part of the violation; empty: none
	}{
		"a lease that is kept and released":                    {window, []string{granted, released}, ""},
		"a lease that an operator breaks":                      {window, []string{granted, broken, released}, ""},
		"a lease of which less was left when it was passed on": {60*ms - 20*ms - 50*ms/50, []string{lateGrant, released}, ""},
		"the same without a margin for the rates of clocks":    {60*ms - 20*ms, []string{lateGrant, released}, "before the deadlines that were stored"},
		"a window without a margin":                            {window + Margin(ttl), []string{granted, released}, "before the deadlines that were stored"},
		"a window of a later reply":                            {window + 500*time.Microsecond, []string{granted, released}, "before the deadlines that were stored"},
		"a lease that was never granted":                       {window, []string{passed}, "0 of 1 nodes have granted"},
		"a lease that another gets":                            {window, []string{granted, passed}, "ended in the store at 40ms, 39ms before the client stopped"},
		"a lease whose keys are deleted":                       {window, []string{granted, wrote(30*ms, "UNLINK", core)}, "ended in the store at 30ms"},
		"a lease of another resource":                          {window, []string{strings.Replace(granted, "{x}", "{y}", 1)}, "0 of 1 nodes have granted"},
		"a weighted lease": {window, []string{wrote(9500*time.Microsecond, "ZADD", core+":line", "NX", "0", "anchor", score(109500*time.Microsecond), "hc.a"),
			wrote(80500*time.Microsecond, "ZREM", core+":line", "hc.a")}, ""},
		"a weighted lease that is removed": {window, []string{wrote(9500*time.Microsecond, "ZADD", core+":line", "0", "anchor", score(109500*time.Microsecond), "hc.a"),
			wrote(50*ms, "ZREM", core+":line", "hc.z", "hc.a")}, "ended in the store at 50ms"},
		"a weighted lease that an operator breaks": {window, []string{wrote(9500*time.Microsecond, "ZADD", core+":line", "0", "anchor", score(109500*time.Microsecond), "hc.a"),
			wrote(50*ms, "ZADD", core+":line", score(109500*time.Microsecond), "h!c.a"), wrote(50*ms, "ZREM", core+":line", "hc.a")}, ""},
	} {
		judged, found := Judge(relied(c.until), ttl, []*Ledger{recorded(t, c.lines...)})
		if judged != 1 {
			t.Errorf("%s: %d windows were compared", name, judged)
		}
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || !strings.Contains(found[0].Text, c.want)) {
			t.Errorf("%s: %v; want %q", name, found, c.want)
		}
	}
}

// The times of a server whose clock runs fast are compared in the machine's, and the margin has to make up for the rate.
func TestWindowsOfAFastServer(t *testing.T) {
	const ttl, gain = 100 * ms, 0.1
	clock := redistest.NewRatedClock(start, gain)
	shows := func(at time.Duration) time.Duration { return clock.At(start.Add(at)).Sub(start) }
	granted := wrote(shows(9500*time.Microsecond), "HSET", "app:{x}", "deadline", score(shows(9500*time.Microsecond)+ttl), "holder", "c.a")
	const deadline = 9500*time.Microsecond + 90909*time.Microsecond
	least := deadline - Margin(ttl) + ttl/10 + clock.Error()
	for until, broken := range map[time.Duration]bool{least: false, least - 5*ms: false, least + ms: true} {
		l := NewWithClock("app", start, func() Clock { return clock })
		at, args, err := parse(granted)
		if err != nil {
			t.Fatal(err)
		}
		l.add(at, args)
		if judged, found := Judge(relied(until)[:1], ttl, []*Ledger{l}); judged != 1 || (len(found) > 0) != broken {
			t.Errorf("a window until %v: %d were compared, found %v", until, judged, found)
		}
	}
}

// An ID has its name from the first time that it was written, in line or as a holder.
func TestNamed(t *testing.T) {
	const core = "app:{x}"
	l := recorded(t, wrote(5*ms, "ZADD", core+":line", "NX", "1", "qc.a"), wrote(7*ms, "HSET", core, "deadline", score(100*ms), "holder", "c.b"),
		wrote(9*ms, "HSET", core, "deadline", score(100*ms), "holder", "c.a"))
	for holder, want := range map[string]time.Duration{"c.a": 5 * ms, "c.b": 7 * ms, "c.c": 0} {
		if at, ok := l.Named("x", holder); at != want || ok != (want > 0) {
			t.Errorf("%s: %v, %v, want %v", holder, at, ok, want)
		}
	}
}

// A lease has the ID with which its tokens were first stored: that of the grant, and those for its process.
func TestGranted(t *testing.T) {
	const core = "app:{x}"
	l := recorded(t, wrote(5*ms, "HSET", core, "deadline", score(100*ms), "token", "7", "holder", "c.a"), wrote(7*ms, "HSET", core, "deadline", score(120*ms)),
		wrote(9*ms, "HSET", core, "deadline", score(130*ms), "token", "9", "holder", "c.b"),
		wrote(11*ms, "HSET", core, "deadline", score(140*ms), "token", "36", "holder", "c.c", "note", "16 0 "), wrote(12*ms, "HSET", core, "deadline", score(150*ms)))
	for token, want := range map[uint64]string{7: "c.a", 8: "", 9: "c.b", 19: "", 20: "c.c", 36: "c.c", 37: ""} {
		if got := l.Granted("x", token); got != want {
			t.Errorf("token %d: %q, want %q", token, got, want)
		}
	}
}

// A majority of the nodes has to hold the lease of a quorum, under the ID of any of its ballots.
func TestWindowsOfAQuorum(t *testing.T) {
	const ttl = 100 * ms
	grant := func(holder string) string {
		return wrote(9500*time.Microsecond, "HSET", "app:{x}", "deadline", score(109500*time.Microsecond), "holder", holder)
	}
	ended := wrote(40*ms, "HSET", "app:{x}", "deadline", "0")
	window := 109500*time.Microsecond - Margin(ttl)
	for name, c := range map[string]struct {
		nodes  [3][]string
		broken bool
	}{
		"two of three":                {[3][]string{{grant("c.a~1")}, {grant("c.a~2")}, nil}, false},
		"one of three":                {[3][]string{{grant("c.a~1")}, {grant("c.b~1")}, nil}, true},
		"two, of which one ends":      {[3][]string{{grant("c.a~1")}, {grant("c.a~1"), ended}, nil}, true},
		"three, of which one ends":    {[3][]string{{grant("c.a~1")}, {grant("c.a~1"), ended}, {grant("c.a~1")}}, false},
		"the same end of an old vote": {[3][]string{{grant("c.a~1")}, {grant("c.a~0"), grant("c.a~1")}, nil}, false},
	} {
		var nodes []*Ledger
		for _, lines := range c.nodes {
			nodes = append(nodes, recorded(t, lines...))
		}
		if _, found := Judge(relied(window), ttl, nodes); (len(found) > 0) != c.broken {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// What a Ledger did not see is not judged, and not counted.
func TestUnseenWindowsAreNotJudged(t *testing.T) {
	l := recorded(t)
	l.blind = []span{{5 * ms, 20 * ms}}
	if judged, found := Judge(relied(80*ms), 100*ms, []*Ledger{l}); judged != 0 || len(found) > 0 {
		t.Errorf("%d judged: %v", judged, found)
	}
}

func TestParse(t *testing.T) {
	at, args, err := parse("+1700000000.000123 [0 127.0.0.1:6379] \"set\" \"a \\\"b\\\"\" \"\\x00\\r\\n\\\\\"\r\n")
	if err != nil || at != wall(start)+123*time.Microsecond || !slices.Equal(args, []string{"set", "a \"b\"", "\x00\r\n\\"}) {
		t.Errorf("%v, %q, %v", at, args, err)
	}
	for _, line := range []string{"+OK\r\n", "-ERR\r\n", "+1700000000.1 [0 lua] \"a\"", "+1700000000.000001 [0 lua] \"a", ""} {
		if _, _, err := parse(line); err == nil {
			t.Errorf("%q was read", line)
		}
	}
}
