package transcript

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// ranNever matches the output of the command "echo never", which transcripts give to holdfast where it must not run.
var ranNever = regexp.MustCompile(`(?m)^never$`)

// forbid fails the script if a command that must not run did: two are inside at once, or work is done twice. .ci/again
// does not repeat that.
func forbid(ts *testscript.TestScript, args []string, stdout string) {
	if n := len(args); n >= 2 && slices.Equal(args[n-2:], []string{"echo", "never"}) && ranNever.MatchString(stdout) {
		violated(ts, strings.Join(args, " ")+": it ran")
	}
}

// ranOut matches what holdfast prints when a lease has ended because of the time.
var ranOut = regexp.MustCompile(`lost: (expired|unreachable)|"cause":"(expired|unreachable)"`)

// violated fails the script. It is no broken promise if a holder of the script was too slow for its TTL, which it says
// before the store may give the lease to another; lossGrace is for its output.
func violated(ts *testscript.TestScript, text string) {
	const lossGrace = 500 * time.Millisecond
	jobs := ts.Value(jobsKey{}).(*jobs)
	for limit := time.Now().Add(lossGrace); ; <-time.After(10 * time.Millisecond) {
		for name := range jobs.running {
			if output, err := os.ReadFile(ts.MkAbs(name + ".err")); err == nil && ranOut.Match(output) {
				ts.Fatalf("%s, after the lease of %s had run out", text, name)
			}
		}
		if time.Now().After(limit) {
			ts.Fatalf("promise broken: %s", text)
		}
	}
}

// forbidEntry fails the script if it expects a file with the errors of what start started to say that it waits, and
// that has ended without, while another job runs.
func forbidEntry(ts *testscript.TestScript, file, pattern string) {
	all := ts.Value(jobsKey{}).(*jobs).running
	name, ofErrors := strings.CutSuffix(file, ".err")
	j := all[name]
	if !ofErrors || j == nil || !strings.HasPrefix(pattern, "waiting") || j.runs() {
		return
	}
	inside := false
	for _, other := range all {
		inside = inside || other.runs()
	}
	if !inside {
		return
	}
	text, err := os.ReadFile(ts.MkAbs(file))
	if j.err == nil && err == nil && !regexp.MustCompile("(?m)"+pattern).Match(text) {
		violated(ts, strings.Join(j.cmd.Args, " ")+": it did not wait")
	}
}
