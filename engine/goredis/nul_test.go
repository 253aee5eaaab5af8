package goredis_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/engine"
	"github.com/holdfast-go/holdfast/engine/goredis"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestReasonsWithNulStayWhole(t *testing.T) {
	e := goredis.New(redistest.Start(t).Client())
	res := engine.Resource{Prefix: "p", Name: "x"}
	_, err := e.Acquire(context.Background(), engine.Request{Resource: res, ID: "c.a", Kind: engine.KindElection, Capacity: 1, Weight: 1, TTL: time.Minute, Reason: "a\x00b"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := e.Snapshot(context.Background(), res)
	if err != nil || s.Holders[0].Reason != "a\x00b" {
		t.Fatalf("%q, %v", s.Holders[0].Reason, err)
	}
}
