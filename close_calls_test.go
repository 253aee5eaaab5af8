package holdfast_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/memory"
)

// unanswered is a store that answers none of the calls that a lock does not need.
type unanswered struct{ *memory.Engine }

func (unanswered) Renew(ctx context.Context, _ []engine.Renewal) []error { return []error{hang(ctx)} }
func (unanswered) Now(ctx context.Context) (time.Time, error)            { return time.Time{}, hang(ctx) }

func (unanswered) Peek(ctx context.Context, _ engine.Resource) (engine.Brief, error) {
	return engine.Brief{}, hang(ctx)
}

func (unanswered) Snapshot(ctx context.Context, _ engine.Resource) (engine.Snapshot, error) {
	return engine.Snapshot{}, hang(ctx)
}

func (unanswered) Break(ctx context.Context, _ engine.Resource, _ engine.Break) error {
	return hang(ctx)
}

func (unanswered) List(ctx context.Context, _, _ string) iter.Seq2[engine.Snapshot, error] {
	return func(yield func(engine.Snapshot, error) bool) { yield(engine.Snapshot{}, hang(ctx)) }
}

func (unanswered) History(ctx context.Context, _, _ string, _ time.Time, _ int) ([]engine.HistoryRecord, error) {
	return nil, hang(ctx)
}

// first returns the first error that a sequence yields.
func first[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

// A call that Close interrupts ends with ErrClosed, not as if the store were unavailable.
func TestCloseInterruptsCalls(t *testing.T) {
	type call func(ctx context.Context, c *holdfast.Client, ticket string) error
	calls := map[string]call{
		"Snapshot": func(ctx context.Context, c *holdfast.Client, _ string) error {
			_, err := c.Snapshot(ctx, "x")
			return err
		},
		"Now": func(ctx context.Context, c *holdfast.Client, _ string) error {
			_, err := c.Now(ctx)
			return err
		},
		"Break": func(ctx context.Context, c *holdfast.Client, _ string) error {
			return c.Break(ctx, "x", "id")
		},
		"Forget": func(ctx context.Context, c *holdfast.Client, _ string) error {
			return c.Forget(ctx, "x")
		},
		"Adopt": func(ctx context.Context, c *holdfast.Client, ticket string) error {
			_, err := c.Adopt(ctx, ticket)
			return err
		},
		"Signal": func(ctx context.Context, c *holdfast.Client, _ string) error {
			return c.Mutex("x").Cond("y").Signal(ctx)
		},
		"Leader": func(ctx context.Context, c *holdfast.Client, _ string) error {
			_, err := c.Election("x").Leader(ctx)
			return err
		},
		"List": func(ctx context.Context, c *holdfast.Client, _ string) error {
			return first(c.List(ctx, "*"))
		},
		"History": func(ctx context.Context, c *holdfast.Client, _ string) error {
			return first(c.History(ctx, holdfast.HistoryQuery{Follow: true}))
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := memory.New()
				ticket, err := mustLock(t, newClient(t, e).Mutex("y").Lock, t.Context()).Detach(t.Context())
				must(t, err)
				c := newClient(t, unanswered{e})
				ended := make(chan error, 1)
				go func() { ended <- call(t.Context(), c, ticket) }()
				synctest.Wait()
				must(t, c.Close())
				err = <-ended
				wantErr(t, err, holdfast.ErrClosed)
				if errors.Is(err, holdfast.ErrUnavailable) {
					t.Errorf("got %v, which says that the store is unavailable", err)
				}
			})
		})
	}
}

// A call whose caller has ended it says so, also if Close follows at once.
func TestACallThatItsCallerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, unanswered{memory.New()})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { _, err := c.Now(ctx); ended <- err }()
		synctest.Wait()
		cancel()
		must(t, c.Close())
		wantErr(t, <-ended, holdfast.ErrUnavailable, context.Canceled)
	})
}
