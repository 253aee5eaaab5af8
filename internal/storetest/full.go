package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Full fills a store while a lease is held and waited for, and makes room later: meanwhile, who wants what has no
// room is told what to do; afterwards all go on.
func Full(t *testing.T, s *Store, fill, makeRoom func(), advice string) {
	a, b := s.Client(t), s.Client(t)
	held := lock(t, a, "held", holdfast.WithTTL(10*time.Second))
	next := lockLater(t, b, "held")
	waiting(t, a, "held", 1)
	fill()
	const most = 2000 // leases that still find room
	var err error
	name := ""
	for n := 0; err == nil && n < most; n++ {
		name = fmt.Sprintf("new %d %s", n, strings.Repeat("x", 400))
		_, err = a.Mutex(name, holdfast.WithTTL(time.Minute)).TryLock(t.Context())
	}
	if !errors.Is(err, holdfast.ErrUnavailable) || errors.Is(err, engine.ErrDenied) || !strings.Contains(fmt.Sprint(err), advice) {
		t.Errorf("TryLock of what has no room: %v; want it unavailable, and %q", err, advice)
	}
	waiting := lockLater(t, b, name)
	<-time.After(time.Second) // it is repeated meanwhile
	makeRoom()
	if lease := <-waiting; lease != nil {
		requireFree(t, b, lease)
	}
	if err := held.Release(t.Context()); err != nil && !errors.Is(err, holdfast.ErrLost) {
		t.Errorf("Release: %v", err)
	}
	if lease := <-next; lease != nil {
		if lease.Token() <= held.Token() {
			redistest.Broken(t, "token %d after %d", lease.Token(), held.Token())
		}
		requireFree(t, b, lease)
	}
}
