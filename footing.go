package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// footing is what leases stand on. A *holding is one lease in the store, a *bundle
// several leases as one, a *substitute what there is without the store.
type footing interface {
	// resource names what is held, for errors.
	resource() string
	// id is the holder ID.
	id() string
	// tokens are those of the lease, by resource name.
	tokens(l *Lease) map[string]uint64
	// open tells whether the holder may still act; it looks at the clock.
	open() bool
	// ending is what the leases are told once it is no longer open.
	ending() error
	// deadline is the end of the trust window as known now.
	deadline() time.Time
	// fallback is FailClosed if the store granted it.
	fallback() Fallback

	// covers tells whether the client holds the resource by it. An adopted lease
	// may be of another prefix than the client's.
	covers(c *Client, res engine.Resource) bool
	// reenter makes a further lease for a caller that has own already: nil if own
	// was given back meanwhile, an error if the request does not fit into it.
	reenter(own *Lease, parent context.Context, lk *locker, weight int) (*Lease, error)

	// leave takes a lease off, once. With the last one the caller must then call
	// giveBack.
	leave(l *Lease) (last, held bool)
	// giveBack returns to the store, or to the next caller, what the last lease
	// has left.
	giveBack(ctx context.Context, last *Lease) error
	// detach takes the lease off without giving anything back.
	detach(ctx context.Context, l *Lease) (ticket string, err error)
}

var _ footing = (*holding)(nil)
