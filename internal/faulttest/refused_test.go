package faulttest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The password of the server changes under a holder: the lease that it cannot renew
// says why, and so does every call from then on.
func TestRefusedConnectionsNameTheirCause(t *testing.T) {
	t.Cleanup(func() { leaktest.Check(t, dialling()) })
	server := redistest.Start(t, redistest.WithPassword("right"))
	w := newBareFixture(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), Password: "right"})
	c, err := holdfast.New(goredis.New(rdb))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Close(), rdb.Close() })
	held := w.lock(c.Mutex("stock", holdfast.WithTTL(time.Second)).Lock)
	w.waitRenewal(held)
	if err := rdb.ConfigSet(t.Context(), "requirepass", "other").Err(); err != nil {
		t.Fatal(err)
	}
	_ = rdb.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "no") // its own connection, too
	lost := w.lost(held)
	if !errors.Is(lost, holdfast.ErrDenied) || !strings.Contains(lost.Error(), "WRONGPASS") {
		t.Errorf("the holder got %v", lost)
	}
	for what, call := range map[string]func() error{
		"Lock":    func() error { _, err := c.Mutex("other").Lock(t.Context()); return err },
		"TryLock": func() error { _, err := c.Mutex("other").TryLock(t.Context()); return err },
	} {
		if err := call(); !errors.Is(err, holdfast.ErrDenied) || !strings.Contains(err.Error(), "WRONGPASS") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
