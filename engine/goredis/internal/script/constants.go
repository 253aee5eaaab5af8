package script

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// constant is a name that scripts use, and its value in Lua.
type constant struct{ name, value, comment string }

// constants are all the constants of the scripts. Instants and durations are in microseconds.
func constants(retention time.Duration) []constant {
	spell := retention / 16
	return []constant{
		{"RETENTION", micro(retention), "the keys outlive what they hold by this"},
		{"SPELL", micro(spell), "a renewal looks at the expiry once in this time"},
		{"REACH", micro(retention + spell), "so the scripts set the expiry to this at least"},
		{"WAITER_LIFE", micro(engine.WaiterLife), "a waiter that has not polled for this long is dead"},
		{"CLAIM_WINDOW", micro(engine.ClaimWindow), "the longest TTL of a grant that is pushed to a waiter"},
		{"BALLOT_AHEAD", micro(engine.MaxBallotAhead), "how far a ballot may be ahead of the clock"},
		{"EXPIRED", cause(engine.CauseExpired), "causes, as in package engine"},
		{"TAKEN", cause(engine.CauseTaken), ""},
		{"DELETED", cause(engine.CauseDeleted), ""},
		{"BROKEN", cause(engine.CauseBroken), ""},
		{"RELEASED", cause(engine.CauseReleased), ""},
		{"EPOCH", "1000000000000", "scores of leases, which are instants, are above"},
		{"TURNS", "400000000000", "scores of turns are from here to EPOCH"},
		{"TURN_STEP", "16384", "a turn's score is TURNS and its place divided by this, which is exact"},
		{"ORDER", "0.5", "score of the second entries of a condition's holders"},
		{"BREAKING", "'!'", "goes before the ID of a lease that is breaking"},
		{"RECALL", "126", "the last byte of the ID of a lease that can be recalled: '~'"},
		{"PORTION", "64", "how much one script clears, so that it takes about 1 ms: 1 for a lease or a waiter"},
		{"SLOW_COST", "4", "what a call on the slow path takes of the portion of a batch"},
		{"MESSAGE_COST", "4", "what a message takes of the portion"},
		{"FEW_FORGOTTEN", "64", "how many old tombstones one script drops: as many as it can add"},
		{"FEW_LOOKS", "8", "how many waiters a sweep looks at first"},
		{"SWEEP_LIFE", micro(3 * engine.WaiterLife), "a sweep drops waiters that have not polled for this long"},
		{"SWEEP_PAUSE", "100000", "the least time between two sweeps by polls"},
		// A member of every line of a capacity above 1, between tombstones and waiters. It is too long
		// for the compact form of a sorted set, in which Redis would search leases one by one, and
		// keeps the line from being created anew for each lease.
		{"ANCHOR", "'" + strings.Repeat("-", 65) + "'", "keeps the line of a shared resource alive, and as a table"},
	}
}

func micro(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

func cause(c engine.Cause) string { return strconv.Itoa(int(c)) }

// declare returns the declarations of the constants that a script uses. A replaced value is for
// tests.
func declare(all []constant, script string, replaced map[string]string) string {
	var out strings.Builder
	for _, c := range all {
		if value, ok := replaced[c.name]; ok {
			c.value = value
		}
		if c.comment != "" {
			c.comment = " -- " + c.comment
		}
		if uses(script, c.name) {
			fmt.Fprintf(&out, "local %s = %s%s\n", c.name, c.value, c.comment)
		}
	}
	return out.String()
}

// uses reports whether a script has the name as a word. Every client reads all scripts when it
// starts, which a regular expression makes slow.
func uses(script, name string) bool {
	for {
		before, after, found := strings.Cut(script, name)
		if !found {
			return false
		}
		if !endsInWord(before) && (after == "" || !inWord(after[0])) {
			return true
		}
		script = after
	}
}

func endsInWord(s string) bool { return s != "" && inWord(s[len(s)-1]) }

func inWord(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}
