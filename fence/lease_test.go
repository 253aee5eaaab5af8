package fence_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/fence"
)

func newClient(t *testing.T, e *goredis.Engine) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(e)
	requireNil(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A holder is paused until its lease has ended and another process has the resource. It
// does not check its lease when it continues, as if it had been paused between the check
// and the write.
func TestPausedHolderIsRefused(t *testing.T) {
	s, rdb := openRedis(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	g := fence.NewRedis(rdb)
	requireNil(t, rdb.Set(ctx, stock, 10, 0).Err())

	paused := newClient(t, goredis.New(s.Client())).Mutex(stock,
		holdfast.WithTTL(300*time.Millisecond), holdfast.WithoutRenewal())
	old, err := paused.Lock(ctx)
	requireNil(t, err)
	seen, err := g.Get(ctx, stock, old.Token(), stock)
	requireNil(t, err)

	next, err := newClient(t, goredis.New(s.Client())).Mutex(stock).Lock(ctx) // when the TTL of the first has run out
	requireNil(t, err)
	if next.Token() <= old.Token() {
		t.Fatalf("token %d after %d", next.Token(), old.Token())
	}
	requireNil(t, g.Claim(ctx, stock, next.Token()))
	n, err := rdb.Get(ctx, stock).Int()
	requireNil(t, err)
	requireNil(t, g.Set(ctx, stock, next.Token(), stock, n-1, 0))

	requireStale(t, g.Set(ctx, stock, old.Token(), stock, seen, 0), old.Token(), next.Token())
	if err := old.Release(ctx); !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("release of the lost lease: %v", err)
	}
	if n, _ := rdb.Get(ctx, stock).Int(); n != 9 {
		t.Fatalf("the stock is %d, want 9", n)
	}
	requireNil(t, next.Release(ctx))
}
