package command

import (
	"io"
	"slices"
	"testing"
)

// The model has the verbs that the arguments name, or all of them.
func TestParseBuildsTheNamedVerbs(t *testing.T) {
	verbsOf := func(args ...string) (verbs []string, err error) {
		p, err := parse(args, io.Discard, io.Discard)
		for _, verb := range p.parser.Model.Children {
			verbs = append(verbs, verb.Name)
		}
		return verbs, err
	}
	if got, err := verbsOf("--prefix", "p", "show", "r", "--json"); err != nil || !slices.Equal(got, []string{"show"}) {
		t.Errorf("show: %v, %v", got, err)
	}
	if got, err := verbsOf("show", "ls"); err != nil || !slices.Equal(got, []string{"ls", "show"}) {
		t.Errorf("show ls: %v, %v", got, err)
	}
	if got, err := verbsOf("run", "r", "--", "show"); err != nil || !slices.Equal(got, []string{"run"}) {
		t.Errorf("run: %v, %v", got, err)
	}
	all, err := verbsOf("completion", "bash")
	if err != nil || len(all) < 15 {
		t.Errorf("completion: %v, %v", all, err)
	}
	for _, bad := range [][]string{{"lock", "run"}, {"show"}, {}, {"show", "--nonsense"}} {
		if got, err := verbsOf(bad...); err == nil || !slices.Equal(got, all) {
			t.Errorf("%q: %v, %v, want the error of the whole model", bad, got, err)
		}
	}
}
