package holdfast_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

// With a TTL that is too short for the store no slot can be run, so Serve ends.
func TestServeEndsIfTheTTLIsTooShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFaulty()
		c := newClient(t, e)
		e.Slow(0, 300*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		err := c.Job("j", holdfast.Every(time.Minute), holdfast.RetryFailed(), holdfast.WithTTL(200*time.Millisecond)).Serve(ctx, func(context.Context) error {
			t.Error("fn is called")
			return nil
		})
		wantErr(t, err, holdfast.ErrInvalid)
		if ctx.Err() != nil {
			t.Error("Serve has gone on until its ctx ended")
		}
		e.Arrived()
	})
}
