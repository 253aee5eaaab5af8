package holdfast

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/engine"
)

// A mismatch reports a request for a resource that is in use as another kind or with
// another capacity, and names both. It matches ErrMismatch.
type mismatch struct {
	inUse, wanted usage
	marked        time.Duration // time until the mark of inUse ends; 0: it is not marked
}

// usage is the kind and the capacity of a resource in use.
type usage struct {
	kind     engine.Kind
	capacity int
}

func (e *mismatch) Error() string {
	s := fmt.Sprintf("in use as %s, not as %s", e.inUse, e.wanted)
	if e.marked > 0 {
		s += fmt.Sprintf(" (marked as done for another %s)", max(e.marked, time.Second).Round(time.Second))
	}
	return s
}

// Is reports whether target is ErrMismatch.
func (e *mismatch) Is(target error) bool { return target == ErrMismatch }

func (u usage) String() string {
	if u.kind == engine.KindSemaphore {
		return fmt.Sprintf("a semaphore of %d", u.capacity)
	}
	if name, ok := kindNames[u.kind]; ok {
		return name
	}
	return fmt.Sprintf("%q", string(u.kind))
}

var kindNames = map[engine.Kind]string{
	engine.KindMutex: "a mutex", engine.KindRW: "a readers' and writers' lock", engine.KindElection: "an election",
	engine.KindJob: "a job", engine.KindCond: "a condition variable", engine.KindLatch: "a latch",
}

func (t *lockSpec) usage() usage { return usage{t.kind, t.capacity} }

// mismatchWith returns the error of a request that does not match the kind and capacity of
// the resource.
func mismatchWith(b engine.Brief, wanted usage) error {
	if found := (usage{b.Kind, b.Capacity}); b.Kind != "" && found != wanted {
		return &mismatch{found, wanted, b.Marked}
	}
	return ErrMismatch // it is no longer in use, or the store does not show its kind
}

// explainMismatch replaces an ErrMismatch of the store by an error that says what the
// resource is in use as. If that cannot be found out, it returns err.
func (c *Client) explainMismatch(ctx context.Context, res engine.Resource, wanted usage, err error) error {
	b, failure := c.engine.Peek(ctx, res)
	if failure != nil {
		return err
	}
	return mismatchWith(b, wanted)
}
