package subject

import (
	"fmt"
	"strings"
)

// Old returns the locks that people copy, in the order of the table of README.md.
func Old() []Subject {
	return []Subject{
		SetnxExpire(), TimestampDel(), TimestampGetset(), LuaSetnx(), SetNxDel(),
		TokenGetDel(), TokenWatch(), TokenLua(), TokenLuaMisquoted(), RetryOnError(),
		ReentrantCounter(), ReentrantHash(), RedlockUnchecked(), Redlock(), TokenPerClient(),
		RedlockExtendRecreates(), RedlockValueReused(), IncrFence(), WriteOnlyFence(), TokenLuaFailover(),
	}
}

// Peers returns other Go libraries, through their public API.
func Peers() []Subject { return []Subject{Redsync(), Redislock(), Rueidislock()} }

// Holdfasts returns Holdfast on each of its engines.
func Holdfasts() []Subject { return []Subject{Holdfast(), HoldfastMemory(), HoldfastQuorum()} }

// All returns every subject.
func All() []Subject { return append(append(Old(), Peers()...), Holdfasts()...) }

// Find returns the subject of an ID, or an error that lists the IDs.
func Find(id string) (Subject, error) {
	var ids []string
	for _, s := range All() {
		if s.ID == id {
			return s, nil
		}
		ids = append(ids, s.ID)
	}
	return Subject{}, fmt.Errorf("no subject %q: use one of %s", id, strings.Join(ids, ", "))
}
