package transcript

import (
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// requirePrefix fails the script if holdfast has printed a line on standard error that does not begin with its name, or
// that has the name twice, or a holder ID.
func requirePrefix(ts *testscript.TestScript, args []string, stderr string) {
	if line, ok := badLine(args, stderr); ok {
		ts.Fatalf("%s: a line on standard error without \"holdfast: \", or with two:\n%s", strings.Join(args, " "), line)
	}
	if line := lineWithID(args, stderr); line != "" {
		ts.Fatalf("%s: a holder ID on standard error without -v:\n%s", strings.Join(args, " "), line)
	}
}

// withID matches a line of holdfast with a holder ID.
var withID = regexp.MustCompile(`(?m)^(?:holdfast: |\{).*\b[0-9a-v]{13}\.[0-9a-v]{12}\b.*`)

// lineWithID returns the first line of stderr with a holder ID that a command of holdfast must not show; "": none. It may
// with -v; break and show may always (decision 0143).
func lineWithID(args []string, stderr string) string {
	if args[0] != "holdfast" || slices.ContainsFunc(beforeDashes(args), func(word string) bool {
		return slices.Contains([]string{"-v", "--verbose", "break", "show"}, word)
	}) {
		return ""
	}
	return withID.FindString(stderr)
}

var prefixTwice = regexp.MustCompile(`(?m)^holdfast: holdfast:.*`)

// badLine returns the first line of stderr that a command must not print. With --json a line is an object. Of a command
// that others write with, only a second name is bad.
func badLine(args []string, stderr string) (line string, ok bool) {
	if line = prefixTwice.FindString(stderr); line != "" {
		return line, true
	}
	if args[0] != "holdfast" || writesWithOthers(args) {
		return "", false
	}
	begin := "holdfast: "
	if slices.Contains(beforeDashes(args), "--json") {
		begin = "{"
	}
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, begin) {
			return line, true
		}
	}
	return "", false
}

// writesWithOthers reports whether a command of holdfast runs others that may write to its standard error. echo and true
// do not.
func writesWithOthers(args []string) bool {
	own := beforeDashes(args)
	for _, word := range own {
		switch word {
		case "-c", "torture", "demo", "serve":
			return true
		}
	}
	cmd := args[len(own):]
	return len(cmd) > 1 && !slices.Contains([]string{"echo", "true"}, cmd[1])
}

// beforeDashes returns the arguments before "--".
func beforeDashes(args []string) []string {
	if i := slices.Index(args, "--"); i >= 0 {
		return args[:i]
	}
	return args
}
