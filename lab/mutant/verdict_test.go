package mutant

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// What a search has printed and how it ended say by what a bug was found, if it was. In a control every failure counts.
func TestVerdict(t *testing.T) {
	const found, hollow = "FOUND by [exclusion token]: seed 7", "hollow: no lease was granted"
	failed := errors.New("exit status 1")
	bug := []Patch{{}}
	for name, c := range map[string]struct {
		patches []Patch
		output  string
		err     error
		stuck   bool
		want    string
	}{
		"nothing":                    {bug, "PASS", nil, false, ""},
		"a check":                    {bug, found, failed, false, "exclusion token"},
		"a check, and it hung":       {bug, found, failed, true, "exclusion token"},
		"a hang":                     {bug, "", failed, true, "hang"},
		"a crash":                    {bug, "panic: x", failed, false, "crash"},
		"too little":                 {bug, hollow, failed, false, ""},
		"a check, though too little": {bug, found + "\n" + hollow, failed, false, "exclusion token"},
		"a control that fails":       {nil, hollow, failed, false, "crash"},
		"a control that passes":      {nil, "PASS", nil, false, ""},
	} {
		v := Verdict{Mutant: Mutant{Patches: c.patches}, Output: c.output}
		v.read(c.err, c.stuck)
		if want := strings.Fields(c.want); !slices.Equal(v.By, want) || (v.Seed == 7) != strings.Contains(c.output, "FOUND") {
			t.Errorf("%s: found by %v, seed %d; want %v", name, v.By, v.Seed, want)
		}
	}
}
