package command

import (
	"strings"
	"testing"
)

// A guard starts ahead of the parser for a run that will need one, and for nothing else.
func TestGuardAhead(t *testing.T) {
	for line, want := range map[string]bool{
		"run r -- true":           true,
		"run r -- grep -n x":      true,
		"run -w 1s r -- true":     true,
		"run r -c true":           true,
		"run -n r -- true":        false,
		"run --nonblock r -- sh":  false,
		"run --help":              false,
		"run":                     false,
		"once r -- true":          false,
		"show run":                false,
		"--prefix x run r -- sh":  false,
		"elect jobs me -- ./jobs": false,
	} {
		a := new(env).guardFor(strings.Fields(line))
		if (a != nil) != want {
			t.Errorf("%s: started %v, want %v", line, a != nil, want)
		}
		if a != nil {
			g, err := a.take()
			if err != nil {
				t.Fatal(err)
			}
			g.Close()
		}
	}
	if a := new(env).guardFor(nil); a != nil {
		t.Error("started without arguments")
	}
}
