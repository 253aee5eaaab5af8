package main

import (
	"context"
	"slices"
	"testing"
)

// TestTopologiesAreUsedWhole: a slice keeps every master and every node busy, and
// the meter sees what each of them does.
func TestTopologiesAreUsedWhole(t *testing.T) {
	s := testStage(t)
	for name, servers := range map[string]int{
		"holdfast": 1, "holdfast, cluster of 1": 1, "holdfast, cluster of 3": 3,
		"holdfast, 3 nodes": 3, "redsync, 3 pools, fail-fast": 3,
	} {
		c, err := named(name)
		if err != nil {
			t.Fatal(err)
		}
		there, err := s.site(c.on)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(there.meters); n != servers || len(there.servers) != servers {
			t.Fatalf("%s plays on %d servers, want %d", name, n, servers)
		}
		before, err := there.read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f, err := crowdOf(gathering{clients: 1, callers: 8, own: true, each: 4, length: 5})(t.Context(), s, c)
		if err != nil || f[rate] <= 0 {
			t.Fatalf("%s: %v, %v", name, f, err)
		}
		after, err := there.read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range after {
			if after[i].since(before[i], c).commands == 0 {
				t.Errorf("%s: server %d of %d had nothing to do", name, i+1, servers)
			}
		}
		if err := there.empty(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i, m := range there.meters {
			if n, err := m.rdb.DBSize(t.Context()).Result(); n != 0 || err != nil {
				t.Errorf("%s: server %d has %d keys left, %v", name, i+1, n, err)
			}
		}
	}
}

// diary is a party that notes what is done with its locks.
type diary struct{ said *[]string }

type page struct {
	diary
	resource string
}

func (d diary) lock(resource string) lock { return page{d, resource} }
func (diary) close()                      {}

func (p page) Lock(context.Context) error   { return p.note("+") }
func (p page) Unlock(context.Context) error { return p.note("-") }
func (p page) note(what string) error       { *p.said = append(*p.said, what+p.resource); return nil }

func TestCircuitGoesRound(t *testing.T) {
	var said []string
	l := circuitOf(diary{&said}, "a", 2)
	for range 3 {
		_, _ = l.Lock(t.Context()), l.Unlock(t.Context()) // they only note
	}
	if want := []string{"+a:0", "-a:0", "+a:1", "-a:1", "+a:0", "-a:0"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
	if _, alone := circuitOf(diary{&said}, "a", 1).(page); !alone {
		t.Error("a single resource has no use for a circuit")
	}
}
