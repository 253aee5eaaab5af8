package holdfast

import (
	"slices"
	"testing"
)

func TestLeaseSet(t *testing.T) {
	var s leaseSet
	a, b, c := new(Lease), new(Lease), new(Lease)
	want := func(leases ...*Lease) {
		t.Helper()
		if s.len() != len(leases) {
			t.Fatalf("len %d, want %d", s.len(), len(leases))
		}
		for i, l := range []*Lease{a, b, c} {
			if in := slices.Contains(leases, l); s.has(l) != in {
				t.Errorf("has(%c) is %v, want %v", 'a'+i, !in, in)
			}
		}
	}
	remove := func(l *Lease, in bool) {
		t.Helper()
		if s.remove(l) != in {
			t.Errorf("remove told %v, want %v", !in, in)
		}
	}
	want()
	remove(a, false)
	s.add(a)
	want(a)
	remove(b, false)
	s.add(b)
	s.add(c)
	want(a, b, c)
	remove(a, true)
	want(b, c)
	remove(c, true)
	want(b)
	s.add(a)
	want(a, b)
	if all := s.takeAll(); !slices.Equal(all, []*Lease{b, a}) {
		t.Errorf("takeAll told %v", all)
	}
	want()
	if s.takeAll() != nil {
		t.Error("nothing was left")
	}
}
