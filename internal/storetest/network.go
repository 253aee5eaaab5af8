package storetest

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// CutOff makes the network between a holder and the store, at addr, silent: the holder stops before another
// one is granted the lease, and gets it again when the network is back. through returns the target by way of another address.
func CutOff(t *testing.T, s *Store, addr string, through func(addr string) string) {
	proxy := redistest.NewProxy(t, addr)
	cut, other := s.At(through(proxy.Addr())).Client(t), s.Client(t)
	ttl := holdfast.WithTTL(2 * time.Second)
	first := lock(t, cut, Name, ttl)
	ended := make(chan time.Time, 1)
	go func() {
		<-first.Done()
		ended <- time.Now()
	}()
	proxy.Blackhole()
	second := lock(t, other, Name, ttl)
	granted := time.Now()
	if end := <-ended; !end.Before(granted) {
		redistest.Broken(t, "the holder stopped %v after another was granted the lease", end.Sub(granted))
	}
	if second.Token() <= first.Token() {
		redistest.Broken(t, "token %d after %d", second.Token(), first.Token())
	}
	proxy.Cut()
	proxy.Heal()
	if err := second.Release(t.Context()); err != nil {
		t.Errorf("Release: %v", err)
	}
	requireFree(t, cut, lock(t, cut, Name, ttl))
}
