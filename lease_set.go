package holdfast

// leaseSet is the leases of a grant. Each knows its place, so no operation takes longer with many.
type leaseSet []*Lease

func (s *leaseSet) add(l *Lease) {
	l.place = uint32(len(*s))
	*s = append(*s, l)
}

func (s leaseSet) has(l *Lease) bool { return int(l.place) < len(s) && s[l.place] == l }

// remove removes a lease and reports whether it was there.
func (s *leaseSet) remove(l *Lease) bool {
	if !s.has(l) {
		return false
	}
	all := *s
	end := len(all) - 1
	last := all[end]
	all[l.place], last.place = last, l.place
	all[end] = nil
	*s = all[:end]
	return true
}
