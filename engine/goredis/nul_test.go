package goredis_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Lua's '%s' ends at a NUL, which is a character like others in UTF-8.
func TestReasonsWithNULStayWhole(t *testing.T) {
	e := goredis.New(redistest.Start(t).Client())
	const reason = "a\x00b"
	r := engine.Request{
		Resource: engine.Resource{Prefix: "p", Name: "x"}, ID: "c.a", Kind: engine.KindElection,
		Capacity: 1, Weight: 1, TTL: time.Minute, Reason: reason,
	}
	if _, err := e.Acquire(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	s, err := e.Snapshot(t.Context(), r.Resource)
	if err != nil || len(s.Holders) != 1 || s.Holders[0].Reason != reason {
		t.Errorf("got %+v, %v, want the reason %q", s, err, reason)
	}
}
