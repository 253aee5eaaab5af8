package endure

import (
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

// judgeEnd looks at the store after the last client has closed: no lease and no wait is left, and, after
// the longest life of a name if the run was longer than that, no key of a resource.
func (r *run) judgeEnd() {
	r.awaitNothing("leases and waits", ttl+5*time.Second, r.parties) // of visitors that were killed
	c := r.census()
	r.t.Logf("after Close: keys %v, %d connections of the measured process, %d of visitors", c.Keys, c.Connections, c.Visitors)
	if c.Connections > 0 || c.Visitors > 0 {
		r.t.Errorf("%d connections of the measured process and %d of visitors are left", c.Connections, c.Visitors)
	}
	if r.plan.For < longestName {
		return // each key has a TTL by which it ends in time, which the census has checked
	}
	r.awaitNothing("keys of resources", longestKey+5*time.Second, func() (string, error) {
		c := r.census()
		if n := c.Keys["core"] + c.Keys["line"]; n > 0 {
			return fmt.Sprintf("%d of resources", n), nil
		}
		return "", nil
	})
}

// awaitNothing waits until look finds nothing.
func (r *run) awaitNothing(what string, limit time.Duration, look func() (string, error)) {
	r.t.Helper()
	var left string
	for end := time.Now().Add(limit); time.Now().Before(end) && !r.t.Failed(); elapse(r.t.Context(), time.Second) {
		var err error
		if left, err = look(); err != nil {
			r.t.Fatalf("%s after Close: %v", what, err)
		}
		if left == "" {
			return
		}
	}
	r.t.Errorf("%s are left %v after Close: %s", what, limit, left)
}

// parties returns a lease or a wait that is in the store; "" if there is none. The units of a latch, which are leases that
// nobody releases, do not count.
func (r *run) parties() (string, error) {
	e, end, err := openEngine(r.plan.Store, r.arena.urls(), "judge")
	if err != nil {
		return "", err
	}
	defer end()
	c, err := holdfast.New(e, holdfast.WithPrefix(prefix))
	if err != nil {
		return "", err
	}
	defer c.Close()
	for s, err := range c.List(r.t.Context(), "*") {
		if err != nil {
			return "", err
		}
		if len(s.Holders)+len(s.Waiters) > 0 && !strings.Contains(s.Resource, "/latch/") {
			return fmt.Sprintf("%s: %+v %+v", s.Resource, s.Holders, s.Waiters), nil
		}
	}
	return "", nil
}
