package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// A grant backs one or more leases: a *storeGrant is one lease in the store, a
// *multiGrant several leases as one, a *fallbackGrant is granted without the store.
type grant interface {
	// resource returns the name of the resource; of several, the first.
	resource() string
	// id is the holder ID.
	id() string
	// tokens are those of the lease, by resource name.
	tokens(l *Lease) map[string]uint64
	// open reports whether the trust window is open, by the clock.
	open() bool
	// endError returns the error of the leases once the grant has ended.
	endError() error
	// deadline returns the present end of the trust window; a renewal moves it.
	deadline() time.Time
	// fallback is FailClosed if the store granted it.
	fallback() Fallback

	// covers reports whether the client holds the resource by this grant. The prefix
	// of an adopted lease may differ from the client's.
	covers(c *Client, res engine.Resource) bool
	// reenter returns a further lease for a caller that has own already. It returns
	// nil if own has been released meanwhile, an error if the request does not fit.
	reenter(own *Lease, parent context.Context, lk *acquirer, weight int) (*Lease, error)

	// release ends a lease, once. After the last one it hands the grant off to the next
	// caller of the process or releases it, and marks the resource as done for mark,
	// unless that is 0.
	release(ctx context.Context, l *Lease, mark time.Duration) error
	// demote makes a writer's lease a reader's.
	demote(ctx context.Context, l *Lease) error
	// detach removes the lease without a release and returns a ticket for Adopt.
	detach(ctx context.Context, l *Lease) (ticket string, err error)
}

var _ grant = (*storeGrant)(nil)
