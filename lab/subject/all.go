package subject

import (
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/lab/stores"
)

// Old returns the locks that are often copied, in the order of the table of README.md.
func Old() []Subject {
	return []Subject{
		SetnxExpire(), TimestampDel(), TimestampGetset(), LuaSetnx(), SetNxDel(),
		TokenGetDel(), TokenWatch(), TokenLua(), TokenLuaMisquoted(), RetryOnError(),
		ReentrantCounter(), ReentrantCounterKept(), ReentrantHash(), RedlockUnchecked(), Redlock(), TokenPerClient(),
		RedlockExtendRecreates(), RedlockValueReused(), IncrFence(), WriteOnlyFence(), TokenLuaFailover(),
	}
}

// Holdfasts returns Holdfast on each of its engines.
func Holdfasts() []Subject {
	all := []Subject{Holdfast(), HoldfastMemory(), HoldfastQuorum()}
	for _, s := range stores.Others() {
		all = append(all, HoldfastOn(s))
	}
	return all
}

// Catalog is the subjects of a run of the lab: those of All, and your own locks.
type Catalog []Subject

// All returns the subjects of this package. Other libraries are in package peer.
func All() Catalog { return append(Old(), Holdfasts()...) }

// Find returns the subject with an ID, or an error that lists the IDs.
func (c Catalog) Find(id string) (Subject, error) {
	var ids []string
	for _, s := range c {
		if s.ID == id {
			return s, nil
		}
		ids = append(ids, s.ID)
	}
	return Subject{}, fmt.Errorf("no subject %q: use one of %s", id, strings.Join(ids, ", "))
}
