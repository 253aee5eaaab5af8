package primitivetest

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
)

// exclusive checks a resource that one caller may hold at a time: at each grant no other
// trust window is open, and tokens increase.
type exclusive struct {
	simulation
	open []*holdfast.Lease // not released yet
	top  uint64            // highest token
}

// granted checks that no other lease is valid now. It ignores leases that an operator broke:
// until the client receives the break, it may even hand them off, with tokens that a fence
// refuses. It also ignores a lease that has ended already, which a stall can cause in real
// time.
func (b *exclusive) granted(l *holdfast.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.Token() == 0 {
		b.failing("granted without a token")
	}
	if b.isBroken(l) {
		return
	}
	for _, other := range b.open {
		if !b.isBroken(other) && other.Err() == nil && l.Err() == nil {
			b.failing("two open trust windows: %s (token %d) and %s (token %d)", other.HolderID(), other.Token(), l.HolderID(), l.Token())
		}
	}
	if l.Token() <= b.top && l.Err() == nil {
		b.failing("token %d after %d", l.Token(), b.top)
	}
	b.top = max(b.top, l.Token())
	b.open = append(b.open, l)
}

func (b *exclusive) released(l *holdfast.Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open = slices.DeleteFunc(b.open, func(o *holdfast.Lease) bool { return o == l })
}

// hold checks a lease that was granted, and waits for d or until the lease is lost.
func (b *exclusive) hold(l *holdfast.Lease, d time.Duration) {
	b.granted(l)
	select {
	case <-time.After(b.span(d)):
	case <-l.Done():
	}
	b.released(l)
}
