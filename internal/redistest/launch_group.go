package redistest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
)

// detached is the testing.TB of a group of servers that several tests share: a failure panics, and stop ends the servers.
type detached struct {
	testing.TB
	mu   sync.Mutex
	ends []func()
}

// failure is what a detached panics with.
type failure string

func (f failure) Error() string { return string(f) }

// Helper implements testing.TB.
func (d *detached) Helper() {}

// Cleanup implements testing.TB. It is called while the servers of the group start, several at a time.
func (d *detached) Cleanup(end func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ends = append(d.ends, end)
}

// Fatalf implements testing.TB.
func (d *detached) Fatalf(format string, args ...any) {
	panic(failure("redistest: " + fmt.Sprintf(format, args...)))
}

func (d *detached) stop() {
	for _, end := range slices.Backward(d.ends) {
		end()
	}
	d.ends = nil
}

// Try calls f, which uses servers that several tests share, and returns the failure of one of them as an error.
func Try(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p
		default:
			panic(p)
		}
	}()
	f()
	return nil
}

// LaunchSentinel is StartSentinel for several tests: a method that fails panics, see Try. The caller must call Stop.
func LaunchSentinel(opts ...Option) (s *Sentinel, err error) {
	d := &detached{}
	if err = Try(func() { s = StartSentinel(d, opts...) }); err != nil {
		d.stop()
	}
	return s, err
}

// Stop ends the servers of LaunchSentinel.
func (s *Sentinel) Stop() { s.t.(*detached).stop() }

// LaunchReplicatedCluster is StartCluster for several tests: a method that fails panics, see Try. The caller must call
// Stop.
func LaunchReplicatedCluster(opts ...Option) (c *Cluster, err error) {
	d := &detached{}
	if err = Try(func() { c = StartCluster(d, opts...) }); err != nil {
		d.stop()
	}
	return c, err
}

// Stop ends the servers of LaunchReplicatedCluster.
func (c *Cluster) Stop() { c.t.(*detached).stop() }
