package main

import (
	"context"
	"slices"
	"testing"
)

// TestTopologiesAreUsedWhole: a slice uses every master and every node, and the meters
// count the commands of each.
func TestTopologiesAreUsedWhole(t *testing.T) {
	s := testTestbed(t)
	for name, servers := range map[string]int{
		"holdfast": 1, "holdfast, cluster of 1": 1, "holdfast, cluster of 3": 3,
		"holdfast, 3 nodes": 3, "redsync, 3 pools, fail-fast": 3,
	} {
		c, err := contenderNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		at, err := s.site(c.on)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(at.meters); n != servers || len(at.addrs) != servers {
			t.Fatalf("%s runs on %d servers, want %d", name, n, servers)
		}
		before, err := at.read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f, err := crowdOf(crowdSpec{clients: 1, callers: 8, own: true, each: 4, length: 5})(t.Context(), s, c)
		if err != nil || f[rate] <= 0 {
			t.Fatalf("%s: %v, %v", name, f, err)
		}
		after, err := at.read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range after {
			if after[i].since(before[i], c).commands == 0 {
				t.Errorf("%s: server %d of %d had nothing to do", name, i+1, servers)
			}
		}
		if err := at.empty(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, m := range at.meters {
			if n, err := m.(*redisMeter).rdb.DBSize(t.Context()).Result(); n != 0 || err != nil {
				t.Errorf("%s: server %d has %d keys left, %v", name, i+1, n, err)
			}
		}
	}
}

// recordingClient records the calls of its locks.
type recordingClient struct{ calls *[]string }

type recordingLock struct {
	recordingClient
	resource string
}

func (d recordingClient) lock(resource string) lock { return recordingLock{d, resource} }
func (recordingClient) close()                      {}

func (p recordingLock) Lock(context.Context) error   { return p.note("+") }
func (p recordingLock) Unlock(context.Context) error { return p.note("-") }
func (p recordingLock) note(what string) error {
	*p.calls = append(*p.calls, what+p.resource)
	return nil
}

func TestRoundRobinTakesTurns(t *testing.T) {
	var calls []string
	l := roundRobinOf(recordingClient{&calls}, "a", 2)
	for range 3 {
		_, _ = l.Lock(t.Context()), l.Unlock(t.Context()) // they only note
	}
	if want := []string{"+a:0", "-a:0", "+a:1", "-a:1", "+a:0", "-a:0"}; !slices.Equal(calls, want) {
		t.Errorf("%q, want %q", calls, want)
	}
	if _, alone := roundRobinOf(recordingClient{&calls}, "a", 1).(recordingLock); !alone {
		t.Error("a single resource does not get the lock itself")
	}
}
