package diagnosis

import "testing"

func TestMerged(t *testing.T) {
	a, b := Place("a:1"), Place("b:2")
	r := &Report{}
	a.Check("x", &r.Findings).OK("fine")
	a.Check("y", &r.Findings).OK("fine")
	b.Check("x", &r.Findings).OK("fine")
	b.Check("x", &r.Findings).Warn("mend", "fine")
	m := r.Merged()
	if len(m) != 3 || m[1].Status != Warn || m[2].Check != "y" || m[0].Node != "a:1, b:2" || r.Findings[0].Node != "a:1" {
		t.Errorf("merged %+v of %+v", m, r.Findings)
	}
}
