package model

import (
	"cmp"
	"fmt"
	"slices"
)

// byToken returns a lease of a lock with tokens that has no place in any order, or nil.
//
// In a legal order the grants are in the order of their tokens, so only their instants are to be
// chosen. It chooses, one token after the other, the earliest instant at which the acquire has been
// called, the lease before it has been granted, and there is room. If any choice is legal, then so is
// this one, and each of its instants is at most that of the other. By induction on the tokens: let t
// be the instant of the other choice.
//
//   - At t the acquire has been called, and the lease before it has been granted, here no later than there.
//   - At t there is room: a lease ends at its end, or at once if it is granted later, and is lowered likewise.
//     So which of the leases with smaller tokens still hold at t, and what they weigh, depends on t
//     alone, not on the instants of their grants before t.
//   - So t is an instant that could be chosen here, and the earliest one is at most t.
func byToken(all []*lease) *misfit {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *lease) int {
		return cmp.Or(cmp.Compare(a.token, b.token), cmp.Compare(a.returned, b.returned))
	})
	var before *lease
	var held []*lease
	at := -never // of the grant before
	for _, l := range all {
		switch {
		case l.token == 0:
			return &misfit{l, "was granted without a token"}
		case before != nil && l.token == before.token:
			return &misfit{l, fmt.Sprintf("has the token of %v", before)}
		case at > l.returned: // so there is a grant before
			return &misfit{l, fmt.Sprintf("returned at %v, but %v was granted at %v at the earliest", l.returned, before, at)}
		}
		at = max(at, l.called)
		for {
			held = slices.DeleteFunc(held, func(o *lease) bool { return o.end <= at })
			used, next := 0, never
			for _, o := range held {
				used, next = used+o.weighs(at), min(next, o.sheds(at))
			}
			if used+l.weight <= l.capacity {
				break
			}
			if at = next; at > l.returned {
				return &misfit{l, fmt.Sprintf("returned at %v, while %d of %d were held: %v", l.returned, used, l.capacity, held)}
			}
		}
		before, held = l, append(held, l)
	}
	return nil
}

// byReturn returns a lease of a lock without tokens that has no place in any order, or nil.
//
// A lease that ends after the return of its acquire holds from its grant to its end, so the
// later it is granted the less it excludes: if any choice of instants is legal, then so is
// that choice with all of these leases granted at their return. (At each instant what is held
// was within the capacity, which is the same for all, and now no more is held.) Of two that return at the same
// instant, the one that is lowered more at that instant goes first.
//
// A lease that ends before the return of its acquire can be granted at or after its end, and
// then excludes nobody. If it is granted before, there is room for it until its end,
// so at its end as well. So each of them needs one instant with room among the
// former leases, whatever the others have.
func byReturn(all []*lease) *misfit {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *lease) int {
		return cmp.Or(cmp.Compare(a.returned, b.returned), cmp.Compare(b.weight-b.weighs(b.returned), a.weight-a.weighs(a.returned)))
	})
	late := func(l *lease) bool { return l.end <= l.returned }
	var held []*lease
	for _, l := range all {
		if late(l) {
			continue
		}
		held = slices.DeleteFunc(held, func(o *lease) bool { return o.end <= l.returned })
		used := l.weight
		for _, o := range held {
			used += o.weighs(l.returned)
		}
		if used > l.capacity {
			return &misfit{l, fmt.Sprintf("returned at %v, when it and others held %d of %d: %v", l.returned, used, l.capacity, held)}
		}
		held = append(held, l)
	}
	lasting := slices.DeleteFunc(slices.Clone(all), late)
	for _, l := range all {
		if late(l) && !fits(l, lasting) {
			return &misfit{l, fmt.Sprintf("had no room from %v to its return at %v", max(l.called, l.end), l.returned)}
		}
	}
	return nil
}

// fits reports whether there is an instant at which a lease can be granted and end at once, beside
// others that are granted at their return.
func fits(l *lease, others []*lease) bool {
	for at := max(l.called, l.end); at <= l.returned; {
		used, next := l.weight, never
		for _, o := range others {
			if o.returned < at && at < o.end { // at their grant and their end l is before and after them
				used, next = used+o.weighs(at), min(next, o.sheds(at))
			}
		}
		if used <= l.capacity {
			return true
		}
		at = next
	}
	return false
}
