package holdfast

import "slices"

// leaseSet is the set of leases that one grant backs: usually one, for which it takes
// two words.
type leaseSet struct {
	one  *Lease
	more *[]*Lease // the others; nil if there never were any
}

func (s *leaseSet) len() int {
	switch {
	case s.one == nil:
		return 0
	case s.more == nil:
		return 1
	}
	return 1 + len(*s.more)
}

func (s *leaseSet) has(l *Lease) bool {
	return s.one == l || s.more != nil && slices.Contains(*s.more, l)
}

func (s *leaseSet) add(l *Lease) {
	switch {
	case s.one == nil:
		s.one = l
	case s.more == nil:
		s.more = &[]*Lease{l}
	default:
		*s.more = append(*s.more, l)
	}
}

// remove takes a lease out, and tells whether it was in.
func (s *leaseSet) remove(l *Lease) bool {
	if s.one == l {
		s.one = nil
		if s.more != nil && len(*s.more) > 0 {
			s.one = (*s.more)[0]
			*s.more = slices.Delete(*s.more, 0, 1)
		}
		return true
	}
	if s.more == nil {
		return false
	}
	i := slices.Index(*s.more, l)
	if i < 0 {
		return false
	}
	*s.more = slices.Delete(*s.more, i, i+1)
	return true
}

// list returns what is in the set.
func (s *leaseSet) list() []*Lease {
	if s.one == nil {
		return nil
	}
	all := []*Lease{s.one}
	if s.more != nil {
		all = append(all, *s.more...)
	}
	return all
}

// takeAll empties the set and returns what was in it.
func (s *leaseSet) takeAll() []*Lease {
	all := s.list()
	*s = leaseSet{}
	return all
}
