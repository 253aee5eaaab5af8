package virtual_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lab/virtual"
)

// A program with a pause at a point that the build does not have shows nothing, and says so.
func TestStopAtAPointThatIsNotThere(t *testing.T) {
	p := virtual.Draw(1, virtual.Memory)
	p.Steps = append(p.Steps, virtual.Step{Do: virtual.Stop, Point: "no.such-point", Nth: 1})
	r := virtual.Play(t, p)
	if len(r.Violations) != 1 || r.Violations[0].Check != "setup" || !strings.Contains(r.Violations[0].Text, "no.such-point") {
		t.Errorf("violations %v; want one of the setup, with the name of the point", r.Violations)
	}
}
