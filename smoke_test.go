package holdfast_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/memory"
	"go.uber.org/goleak"
)

func TestSmoke(t *testing.T) {
	defer goleak.VerifyNone(t)
	c, err := holdfast.New(memory.New())
	if err != nil {
		t.Fatal(err)
	}
	c2, _ := holdfast.New(memory.New())
	defer c2.Close()
	ctx := context.Background()
	n := 0
	var wg sync.WaitGroup
	start := time.Now()
	for range 64 {
		wg.Go(func() {
			for range 200 {
				l, err := c.Mutex("x").Lock(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				n++
				if err := l.Release(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	t.Log(n, time.Since(start))
	if n != 64*200 {
		t.Fatal(n)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}
