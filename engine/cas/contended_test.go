package cas_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/cas"
	"github.com/holdfast-go/holdfast/engine/cas/castest"
)

// semaphore is a request for one unit of many.
func semaphore(id string, ttl time.Duration, queue bool) engine.Request {
	r := request(id, ttl, queue)
	r.Kind, r.Capacity = engine.KindSemaphore, 100_000
	return r
}

// A resource that others change all the time lets newcomers in, and keeps no renewal of the same
// process waiting.
func TestHotResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := castest.NewMemory()
		s := &hooked{DocumentStore: m}
		e, other := cas.New(s, 0), cas.New(m, 0)
		a, o := semaphore("a.1", time.Minute, false), semaphore("o.1", time.Minute, false)
		held, theirs := acquire(t, e, a, engine.Granted), acquire(t, other, o, engine.Granted)
		const oneWay = 10 * time.Millisecond
		s.swap = func(ctx context.Context, c []cas.Change) ([]cas.Outcome, error) {
			time.Sleep(oneWay)
			defer time.Sleep(oneWay)
			return m.Swap(ctx, c)
		}
		s.read = func(ctx context.Context, r []cas.Read) ([]cas.Doc, error) {
			time.Sleep(oneWay)
			defer time.Sleep(oneWay)
			return m.Read(ctx, r)
		}
		ended := make(chan struct{})
		defer close(ended)
		go func() {
			for {
				select {
				case <-ended:
					return
				case <-time.After(3 * oneWay):
				}
				if err := renew(t, other, o, theirs.Token); err != nil {
					t.Error(err)
				}
			}
		}()
		for i := range 20 {
			time.Sleep(time.Second)
			began := time.Now()
			var joined time.Duration
			done := make(chan struct{})
			go func() {
				defer close(done)
				if _, err := e.Acquire(t.Context(), semaphore(time.Now().String()+".1", time.Minute, false)); err != nil {
					t.Error(err)
				}
				joined = time.Since(began)
			}()
			if i%2 == 0 {
				time.Sleep(oneWay)
				if err := renew(t, e, a, held.Token); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took > 500*time.Millisecond {
					t.Errorf("a renewal took %v", took)
				}
			}
			<-done
			if joined > 2*time.Second {
				t.Errorf("a newcomer took %v", joined)
			}
		}
	})
}
