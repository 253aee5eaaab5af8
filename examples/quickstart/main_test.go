package main

import (
	"testing"

	"github.com/holdfast-go/holdfast/examples/internal/node"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestMain(m *testing.M) { node.Main(m, main) }

func TestREADMEsProgramRuns(t *testing.T) {
	t.Setenv("REDIS_ADDR", redistest.Start(t).Addr())
	n := node.Start(t)
	n.Await("held with fencing token ")
	n.Wait()
}
