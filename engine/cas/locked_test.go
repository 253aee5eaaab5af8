package cas_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// lockable is a store of which one document can be locked, so that changes of it wait.
type lockable struct {
	*castest.Memory
	name     string
	unlocked chan struct{} // nil: it is not locked
}

func (l *lockable) Swap(ctx context.Context, changes []cas.Change) ([]cas.Outcome, error) {
	travel(time.Millisecond) // others come meanwhile
	for _, c := range changes {
		if c.Key.Name != l.name || l.unlocked == nil {
			continue
		}
		if len(changes) > 1 {
			return nil, cas.ErrOneOfMany
		}
		select {
		case <-l.unlocked:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return l.Memory.Swap(ctx, changes)
}

// numbered is a request for one of several resources.
func numbered(i int) engine.Request {
	r := request("a.1", time.Minute, false)
	r.Resource.Name = fmt.Sprint(i)
	return r
}

// A document that somebody else has locked holds up the changes of it, and not those that come at the same time.
func TestLockedDocumentHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &lockable{Memory: castest.NewMemory(), name: "20", unlocked: make(chan struct{})}
		e := cas.New(s, 0)
		var others, all sync.WaitGroup
		for i := range 40 {
			group := &others
			if fmt.Sprint(i) == s.name {
				group = &all
			}
			group.Go(func() { acquire(t, e, numbered(i), engine.Granted) })
		}
		others.Wait()
		close(s.unlocked)
		all.Wait()
	})
}

// So it is with a batch of renewals, which are not all made at the same time.
func TestLockedDocumentHoldsUpNoOtherRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const leases, ttl = 300, time.Minute
		s := &lockable{Memory: castest.NewMemory(), name: "40"}
		e := cas.New(s, 0)
		var batch []engine.Renewal
		for i := range leases {
			r := numbered(i)
			a := acquire(t, e, r, engine.Granted)
			batch = append(batch, engine.Renewal{Resource: r.Resource, Held: engine.Held{ID: r.ID, Token: a.Token}, TTL: 2 * ttl})
		}
		s.unlocked = make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		for i, err := range e.Renew(ctx, batch) {
			if locked := batch[i].Resource.Name == s.name; locked != (err != nil) {
				t.Errorf("renewal %d: %v", i, err)
			}
		}
		close(s.unlocked)
	})
}
