package live

import "math/rand/v2"

// later replaces the kinds of resources of a quarter of the programs of Holdfast by those that came later, from numbers of its own; or
// of all, by that of the setting.
func later(p Program, s Setting, kinds []Kind) []Kind {
	d := drawer{rand.New(rand.NewPCG(p.Seed, 0x6b696e64))}
	switch {
	case !p.holdfast():
		return kinds
	case s.Kind != "":
		return []Kind{s.Kind}
	case d.IntN(4) > 0:
		return kinds
	}
	return drawn(d, []Kind{Election}, []Kind{Several}, []Kind{Latch}, []Kind{Election, Counter}, []Kind{Several, Counter}, []Kind{Latch, Counter}, []Kind{Cond}, []Kind{Moved})
}
