package transcript

import (
	"strings"
	"testing"
)

func TestBadLine(t *testing.T) {
	const twice = "holdfast: holdfast: lease of \"r\" lost\n"
	for name, c := range map[string]struct{ args, stderr, want string }{
		"nothing":                  {"holdfast ls", "", ""},
		"prefix":                   {"holdfast ls", "holdfast: one\nholdfast: two\n", ""},
		"none":                     {"holdfast ls", "holdfast: one\ntwo\nthree\n", "two\n"},
		"none in a usage error":    {"holdfast run r ls", "put -- before the command\n", "put -- before the command\n"},
		"none beside echo":         {"holdfast run r -- echo a", "oops\n", "oops\n"},
		"none beside true":         {"holdfast --store a,b once --keep 1h r -- true", "oops\n", "oops\n"},
		"an empty line":            {"holdfast ls", "holdfast: one\n\n", "\n"},
		"a line of CMD":            {"holdfast run r -- ls -l", "ls: no such file\n", ""},
		"a line of the shell":      {"holdfast run r -c echo", "sh: not found\n", ""},
		"a line of the lab":        {"holdfast torture -list", "usage\n", ""},
		"a line of another":        {"sh -c holdfast", "sh: not found\n", ""},
		"an object":                {"holdfast ls --json", "{\"event\":\"error\"}\n", ""},
		"no object":                {"holdfast ls --json", "holdfast: one\n", "holdfast: one\n"},
		"--json of CMD":            {"holdfast run r -- true --json", "holdfast: one\n", ""},
		"twice":                    {"holdfast release x", twice, twice[:len(twice)-1]},
		"twice in the second line": {"holdfast ls", "holdfast: one\n" + twice, twice[:len(twice)-1]},
		"twice beside CMD":         {"holdfast run r -- ls", "ls: no such file\n" + twice, twice[:len(twice)-1]},
		"twice in a script":        {"sh -c holdfast", twice, twice[:len(twice)-1]},
	} {
		got, bad := badLine(strings.Fields(c.args), c.stderr)
		if got != c.want || bad != (c.want != "") {
			t.Errorf("%s: got %q, %v, want %q", name, got, bad, c.want)
		}
	}
}

func TestLineWithID(t *testing.T) {
	const busy = "holdfast: not acquired: holder ID 0123456789abc.defghijklmno; see holdfast show"
	for args, want := range map[string]string{
		"holdfast run -n r -- true": busy, "holdfast run r -- sh -c holdfast": busy, "holdfast run r -- true -v": busy,
		"holdfast run -v -n r -- true": "", "holdfast hold --verbose r": "", "holdfast break r x": "", "sh -c holdfast": "",
	} {
		if got := lineWithID(strings.Fields(args), "holdfast: one\n"+busy+"\n"); got != want {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
	for _, line := range []string{"", "holdfast: 10.0.0.1 at holdfast-redis.example", "0123456789abc.defghijklmno of CMD"} {
		if got := lineWithID([]string{"holdfast", "ls"}, line+"\n"); got != "" {
			t.Errorf("got %q", got)
		}
	}
	if got := lineWithID([]string{"holdfast", "ls"}, `{"holder":"0123456789abc.defghijklmno"}`); got == "" {
		t.Error("an object with a holder ID passes")
	}
}
